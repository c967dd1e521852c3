//! A client in Rust: client NAME TEXT. It sends a request, and prints the reply. The declarations are those that
//! CoreFoundation's headers have in C.

use std::ffi::{c_char, c_void, CString};
use std::ptr::{null, null_mut};

type CFTypeRef = *const c_void;
type CFIndex = isize;

extern "C" {
    static kCFRunLoopDefaultMode: CFTypeRef;
    fn CFRelease(object: CFTypeRef);
    fn CFStringCreateWithCString(allocator: CFTypeRef, text: *const c_char, encoding: u32) -> CFTypeRef;
    fn CFDataCreate(allocator: CFTypeRef, bytes: *const u8, length: CFIndex) -> CFTypeRef;
    fn CFDataGetBytePtr(data: CFTypeRef) -> *const u8;
    fn CFDataGetLength(data: CFTypeRef) -> CFIndex;
    fn CFMessagePortCreateRemote(allocator: CFTypeRef, name: CFTypeRef) -> CFTypeRef;
    fn CFMessagePortSendRequest(
        remote: CFTypeRef, id: i32, data: CFTypeRef, send_timeout: f64, reply_timeout: f64, reply_mode: CFTypeRef,
        reply: *mut CFTypeRef,
    ) -> i32;
}

const UTF8: u32 = 0x0800_0100;

/// An object of CoreFoundation, which is released at the end of its scope.
struct Owned(CFTypeRef);

impl Owned {
    fn new(object: CFTypeRef) -> Option<Owned> {
        if object.is_null() { None } else { Some(Owned(object)) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) { unsafe { CFRelease(self.0) } }
}

fn ask(name: &str, text: &str) -> Result<Vec<u8>, String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    unsafe {
        let name = Owned::new(CFStringCreateWithCString(null(), name.as_ptr(), UTF8)).ok_or("not UTF-8")?;
        let port = Owned::new(CFMessagePortCreateRemote(null(), name.0)).ok_or("nobody has the name")?;
        let data = Owned::new(CFDataCreate(null(), text.as_ptr(), text.len() as CFIndex)).ok_or("no memory")?;
        let mut reply: CFTypeRef = null_mut();
        let result = CFMessagePortSendRequest(port.0, 1, data.0, 5.0, 5.0, kCFRunLoopDefaultMode, &mut reply);
        let reply = Owned::new(reply).ok_or(format!("no reply: {result}"))?;
        let bytes = std::slice::from_raw_parts(CFDataGetBytePtr(reply.0), CFDataGetLength(reply.0) as usize);
        Ok(bytes.to_vec())
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.len() != 3 { std::process::exit(2) }
    match ask(&words[1], &words[2]) {
        Ok(reply) => println!("{}", String::from_utf8_lossy(&reply)),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}
