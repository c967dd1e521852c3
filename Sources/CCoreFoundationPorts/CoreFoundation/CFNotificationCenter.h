#ifndef SWIFT_PORTS_CF_NOTIFICATION_CENTER_H
#define SWIFT_PORTS_CF_NOTIFICATION_CENTER_H

#pragma GCC system_header

#include <CoreFoundation/CoreFoundation.h>

CF_IMPLICIT_BRIDGING_ENABLED
CF_EXTERN_C_BEGIN

/* The centre of all processes of the user. CoreFoundation's header has it for other systems alone. */
CF_EXPORT CFNotificationCenterRef CFNotificationCenterGetDistributedCenter(void);

CF_EXTERN_C_END
CF_IMPLICIT_BRIDGING_DISABLED

#endif
