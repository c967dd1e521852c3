#include <qb/qbipcc.h>
#include <qb/qbipcs.h>
#include <qb/qbloop.h>
