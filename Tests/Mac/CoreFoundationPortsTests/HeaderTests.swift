import OwnThread
import Testing

/// The installed headers, with the compilers and the standards of the languages that programs are written for.
@Suite(.ownThread) struct HeaderTests {
    private let headers =
        [
            "CoreFoundation.h", "CFArray.h", "CFBase.h", "CFData.h", "CFDictionary.h", "CFFileDescriptor.h",
            "CFMachPort.h",
            "CFMessagePort.h",
            "CFNotificationCenter.h", "CFNumber.h", "CFRunLoop.h", "CFSocket.h", "CFString.h", "CFURL.h",
        ].map { "#include <CoreFoundation/\($0)>" }
        + [
            "dispatch/dispatch.h", "mach/mach.h", "mach/message.h", "mach/mach_time.h", "bootstrap.h",
            "servers/bootstrap.h",
        ].map {
            "#include <\($0)>"
        }

    @Test(arguments: [
        (CProgram.Compiler.gcc, "-std=c99"), (.gcc, "-std=gnu17"), (.gxx, "-std=c++98"), (.gxx, "-std=c++20"),
        (.clang, "-std=c99"), (.clang, "-fblocks"), (.clangxx, "-std=c++17"), (.clangxx, "-std=c++17 -fblocks"),
    ])
    func `each header is enough by itself`(_ compiler: CProgram.Compiler, _ options: String) {
        for header in headers {
            #expect(
                CProgram.complaints(about: header, compiler, "-Wall -Wextra -pedantic \(options)") == "", "\(header)")
        }
    }

    @Test(arguments: CProgram.Compiler.allCases)
    func `a program knows what it is compiled for`(_ compiler: CProgram.Compiler) {
        let source = """
            #include <TargetConditionals.h>
            #if !TARGET_OS_LINUX || TARGET_OS_MAC || !TARGET_RT_64_BIT || TARGET_RT_LITTLE_ENDIAN == TARGET_RT_BIG_ENDIAN
            #error not this system
            #endif
            extern int anything;
            """
        #expect(CProgram.complaints(about: source, compiler, "-Wundef -Werror") == "")
    }
}
