#include "device.h"
#include "product.h"

namespace {  // every image has its own copies
#include "../maxsim.cu"
}
