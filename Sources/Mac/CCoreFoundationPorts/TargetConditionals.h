// The system that the program is compiled for, as macOS's header of this name says it. CoreFoundation's headers include this file if it
// exists. Their own knows the byte order of a clang, which gcc does not name in the same way.
#ifndef SWIFT_PORTS_TARGET_CONDITIONALS_H
#define SWIFT_PORTS_TARGET_CONDITIONALS_H

#if !defined(__LITTLE_ENDIAN__) && !defined(__BIG_ENDIAN__)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define __LITTLE_ENDIAN__ 1
#else
#define __BIG_ENDIAN__ 1
#endif
#endif

#define TARGET_OS_LINUX 1
#define TARGET_OS_ANDROID 0
#define TARGET_OS_BSD 0
#define TARGET_OS_CYGWIN 0
#define TARGET_OS_DARWIN 0
#define TARGET_OS_EMBEDDED 0
#define TARGET_OS_IOS 0
#define TARGET_OS_IPHONE 0
#define TARGET_OS_MAC 0
#define TARGET_OS_MACCATALYST 0
#define TARGET_OS_OSX 0
#define TARGET_OS_SIMULATOR 0
#define TARGET_OS_TV 0
#define TARGET_OS_UNIX 0
#define TARGET_OS_WASI 0
#define TARGET_OS_WATCH 0
#define TARGET_OS_WIN32 0
#define TARGET_OS_WINDOWS 0

#if defined(__x86_64__)
#define TARGET_CPU_X86_64 1
#else
#define TARGET_CPU_X86_64 0
#endif
#if defined(__aarch64__)
#define TARGET_CPU_ARM64 1
#else
#define TARGET_CPU_ARM64 0
#endif
#define TARGET_CPU_ARM 0
#define TARGET_CPU_MIPS 0
#define TARGET_CPU_MIPS64 0
#define TARGET_CPU_PPC 0
#define TARGET_CPU_PPC64 0
#define TARGET_CPU_S390X 0
#define TARGET_CPU_WASM32 0
#define TARGET_CPU_X86 0

#ifdef __LITTLE_ENDIAN__
#define TARGET_RT_LITTLE_ENDIAN 1
#define TARGET_RT_BIG_ENDIAN 0
#else
#define TARGET_RT_LITTLE_ENDIAN 0
#define TARGET_RT_BIG_ENDIAN 1
#endif
#ifdef __LP64__
#define TARGET_RT_64_BIT 1
#else
#define TARGET_RT_64_BIT 0
#endif

#endif
