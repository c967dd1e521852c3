#ifndef SWIFT_PORTS_CF_MESSAGE_PORT_H
#define SWIFT_PORTS_CF_MESSAGE_PORT_H

#pragma GCC system_header

// First, because the toolchain's CFMessagePort.h needs other headers.
#include <CoreFoundation/CoreFoundation.h>

#include <dispatch/dispatch.h>

CF_EXTERN_C_BEGIN

/* Has a dispatch queue call the callback of a local port; NULL has none. A port that has a run-loop source stays as it is. */
CF_EXPORT void CFMessagePortSetDispatchQueue(CFMessagePortRef ms, dispatch_queue_t queue);

CF_EXTERN_C_END

#endif
