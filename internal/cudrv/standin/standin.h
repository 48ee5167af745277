// What the two halves of the stand-in share: memory that is checked, and kernels found by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

// A broken rule: the call that comes upon it returns an error, as a fault on the card would.
struct Violation : std::runtime_error { using std::runtime_error::runtime_error; };

// Returns the memory [address, address+bytes), which must lie inside one live device allocation.
void *device_memory(uint64_t address, size_t bytes, const char *what);

// One launch. A kernel reads its parameters and device memory, and throws Violation.
struct Launch {
	std::string kernel;
	unsigned grid[3], block[3], shared;
	std::string params;  // the parameter struct
};

// Reports whether there is a kernel of that name.
bool known_kernel(const std::string &name);

// The size of its parameter struct.
size_t parameter_bytes(const std::string &name);

// Runs a launch to its end.
void run_kernel(const Launch &l, int multiprocessors);
