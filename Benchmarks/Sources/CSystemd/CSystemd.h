#include <systemd/sd-bus.h>
#include <systemd/sd-id128.h>
