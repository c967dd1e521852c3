#include "servers/bootstrap.h"
