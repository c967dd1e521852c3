#ifndef SWIFT_PORTS_CF_MESSAGE_PORT_H
#define SWIFT_PORTS_CF_MESSAGE_PORT_H

#pragma GCC system_header

// First, because the toolchain's CFMessagePort.h needs other headers.
#include <CoreFoundation/CoreFoundation.h>

#if defined(__cplusplus) && !defined(__clang__)
// g++ has a remark on each kind of source in Dispatch's header, which no option hides.
#include <unistd.h>
typedef struct dispatch_queue_s *dispatch_queue_t;
#else
#include <dispatch/dispatch.h>
#endif

CF_EXTERN_C_BEGIN

/* Has a dispatch queue call the callback of a local port; NULL has none. A port that has a run-loop source stays as it is. */
CF_EXPORT void CFMessagePortSetDispatchQueue(CFMessagePortRef ms, dispatch_queue_t queue);

CF_EXTERN_C_END

#endif
