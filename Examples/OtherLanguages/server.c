// A server in C, for clang or gcc: server NAME. It answers each request with the text in capital letters.
#include <CoreFoundation/CoreFoundation.h>
#include <ctype.h>
#include <stdio.h>

static CFDataRef answer(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    (void)port, (void)info;
    CFMutableDataRef reply = CFDataCreateMutableCopy(NULL, 0, data);
    UInt8 *bytes = CFDataGetMutableBytePtr(reply);
    for (CFIndex at = 0; at < CFDataGetLength(reply); at++) bytes[at] = (UInt8)toupper(bytes[at]);
    // An id of 0 is the last request.
    if (id == 0) CFRunLoopStop(CFRunLoopGetCurrent());
    return reply;
}

int main(int count, char **words) {
    CFStringRef name = CFStringCreateWithCString(NULL, count > 1 ? words[1] : "com.example.upper", kCFStringEncodingUTF8);
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, answer, NULL, NULL);
    CFRelease(name);
    if (!port) return 1;
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source);
    CFRunLoopRun();
    CFMessagePortInvalidate(port);
    CFRelease(port);
    return 0;
}
