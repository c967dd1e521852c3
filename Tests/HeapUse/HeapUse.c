#include "HeapUse.h"
