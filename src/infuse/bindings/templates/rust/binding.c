#define INFUSE_BINDING
#include "binding.h"
