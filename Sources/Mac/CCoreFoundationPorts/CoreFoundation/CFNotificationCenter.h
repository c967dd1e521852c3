#ifndef SWIFT_PORTS_CF_NOTIFICATION_CENTER_H
#define SWIFT_PORTS_CF_NOTIFICATION_CENTER_H

#pragma GCC system_header

#include <CoreFoundation/CoreFoundation.h>

CF_IMPLICIT_BRIDGING_ENABLED
CF_EXTERN_C_BEGIN

/* The centre of all processes of the user. CoreFoundation's header has it for other systems alone. */
CF_EXPORT CFNotificationCenterRef CFNotificationCenterGetDistributedCenter(void);

/* While the distributed centre is suspended, each observer's suspension behavior says what becomes of notifications. On
   macOS, Foundation calls these two functions, which no header declares. */
CF_EXPORT void _CFNotificationCenterSetSuspended(CFNotificationCenterRef center, Boolean suspended);
CF_EXPORT Boolean _CFNotificationCenterIsSuspended(CFNotificationCenterRef center);

CF_EXTERN_C_END
CF_IMPLICIT_BRIDGING_DISABLED

#endif
