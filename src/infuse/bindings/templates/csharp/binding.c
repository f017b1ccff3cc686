/* The library that the package calls: what all languages share, with the model. */
#define INFUSE_BINDING INFUSE_API
#include "binding.h"
