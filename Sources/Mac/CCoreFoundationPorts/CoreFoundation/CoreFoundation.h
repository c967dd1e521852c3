// CoreFoundation as Swift's toolchain has it for Linux, with what its headers leave out.
#ifndef SWIFT_PORTS_CORE_FOUNDATION_H
#define SWIFT_PORTS_CORE_FOUNDATION_H

#pragma GCC system_header

// Functions for Foundation alone, which need blocks, and no C++.
#define __COREFOUNDATION_FORSWIFTFOUNDATIONONLY__ 1

#include_next <CoreFoundation/CoreFoundation.h>

#include <CoreFoundation/CFFileDescriptor.h>
#include <CoreFoundation/CFMachPort.h>
#include <CoreFoundation/CFMessagePort.h>
#include <CoreFoundation/CFNotificationCenter.h>

CF_EXTERN_C_BEGIN

/* The number of references to an object, for looking at it while debugging. */
CF_EXPORT CFIndex CFGetRetainCount(CFTypeRef cf);

CF_EXTERN_C_END

#endif
