// Dispatch as Swift's toolchain has it, for gcc, too, and without g++'s remarks on the place of attributes, which no option
// hides.
#ifndef SWIFT_PORTS_DISPATCH_H
#define SWIFT_PORTS_DISPATCH_H

#pragma GCC system_header

// Dispatch asks for clang's features.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#ifndef __has_extension
#define __has_extension(extension) 0
#endif

#if defined(__cplusplus) && !defined(__clang__)
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <os/generic_unix_base.h>

#define __DISPATCH_INDIRECT__
#include <os/object.h>
#include <dispatch/base.h>
#undef __DISPATCH_INDIRECT__
// It stands before a struct there.
#undef DISPATCH_LINUX_UNAVAILABLE
#define DISPATCH_LINUX_UNAVAILABLE()
#endif

#include_next <dispatch/dispatch.h>

#endif
