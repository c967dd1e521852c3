// A client in C++: client NAME TEXT. It sends a request, and prints the reply.
#include <CoreFoundation/CoreFoundation.h>

#include <iostream>
#include <memory>
#include <string>
#include <type_traits>

struct Release {
    void operator()(CFTypeRef object) const { CFRelease(object); }
};

// An object of CoreFoundation, which is released at the end of its scope.
template <class Ref> using Owned = std::unique_ptr<std::remove_pointer_t<Ref>, Release>;

int main(int count, char **words) {
    if (count != 3) return 2;
    Owned<CFStringRef> name(CFStringCreateWithCString(nullptr, words[1], kCFStringEncodingUTF8));
    Owned<CFMessagePortRef> port(CFMessagePortCreateRemote(nullptr, name.get()));
    if (!port) {
        std::cerr << "nobody has the name " << words[1] << "\n";
        return 1;
    }
    std::string text = words[2];
    Owned<CFDataRef> data(CFDataCreate(nullptr, reinterpret_cast<const UInt8 *>(text.data()), CFIndex(text.size())));
    CFDataRef answer = nullptr;
    SInt32 result = CFMessagePortSendRequest(port.get(), 1, data.get(), 5, 5, kCFRunLoopDefaultMode, &answer);
    if (result != kCFMessagePortSuccess) {
        std::cerr << "no reply: " << result << "\n";
        return 1;
    }
    Owned<CFDataRef> reply(answer);
    std::cout.write(reinterpret_cast<const char *>(CFDataGetBytePtr(reply.get())), CFDataGetLength(reply.get()));
    std::cout << "\n";
}
