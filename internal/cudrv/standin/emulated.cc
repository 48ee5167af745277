// The kernels as kernels/emulate compiles them for the CPU: the sources of the images, in place of kernels.cc.
#include "standin.h"
#include "emulate/launch.h"

bool known_kernel(const std::string &name) { return emulate::find(name) != nullptr; }

size_t parameter_bytes(const std::string &name) { return emulate::find(name)->params; }

void run_kernel(const Launch &l, int) {
	try {
		emulate::launch(*emulate::find(l.kernel), l.grid, l.block, l.shared, l.params.data());
	} catch (const std::runtime_error &e) {
		throw Violation(e.what());
	}
}
