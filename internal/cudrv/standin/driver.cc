// Devices, contexts, memory, lazy streams and launches. See README.md for the rules it enforces.
#include <cuda.h>
#include <time.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include "emulate/tensormap.h"
#include "standin.h"

namespace {

struct Stream;

// What waits in a stream: work to do, or another stream to bring up to a point first.
struct Op {
	std::function<void()> run;
	Stream *first;
	size_t upto;
};

struct Stream {
	int device;
	std::deque<Op> ops;
	size_t done = 0, queued = 0;
};

struct Event {
	Stream *stream = nullptr;
	size_t upto = 0;
	unsigned asked = 0;
	timespec passed{};
};

struct Function {
	std::string name;
	unsigned shared = 48 << 10;
};

struct Module {
	int device;
};

struct Device {
	int context_users = 0;
	size_t used = 0;
	CUresult fault = CUDA_SUCCESS;  // once a kernel or copy has broken a rule, every call of the process fails
	std::map<uint64_t, size_t> memory;
	std::map<uint64_t, size_t> registered;
};

std::mutex one;
Device devices[8];
std::map<uint64_t, size_t> pinned;
thread_local int current = -1;

long setting(const char *name, long otherwise) {
	const char *v = getenv(name);
	return v ? atol(v) : otherwise;
}
int device_count() { return (int)setting("STANDIN_DEVICES", 2); }
int major() { return (int)setting("STANDIN_MAJOR", 8); }
size_t memory_size() { return (size_t)setting("STANDIN_MEMORY", 1L << 30); }
int shared_limit() { return major() == 9 ? 232448 : 166912; }
int multiprocessors() { return (int)setting("STANDIN_MULTIPROCESSORS", 4); }

bool inside(const std::map<uint64_t, size_t> &ranges, uint64_t at, size_t bytes) {
	auto it = ranges.upper_bound(at);
	return it != ranges.begin() && (--it, at + bytes <= it->first + it->second);
}

// Runs f for the current context. A violation is reported once and makes the context useless.
CUresult guarded(const std::function<CUresult(Device &)> &f) {
	std::lock_guard<std::mutex> lock(one);
	if (current < 0 || devices[current].context_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
	Device &d = devices[current];
	if (d.fault) return d.fault;
	try {
		return f(d);
	} catch (const Violation &v) {
		if (!getenv("STANDIN_QUIET")) fprintf(stderr, "stand-in: %s\n", v.what());
		return d.fault = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
}

void advance(Stream *s, size_t upto) {
	while (s->done < upto) {
		Op op = std::move(s->ops.front());
		s->ops.pop_front();
		s->done++;
		if (op.first) advance(op.first, op.upto);
		if (op.run) op.run();
	}
}

CUresult put(CUstream stream, Op op) {
	Stream *s = (Stream *)stream;
	if (s->device != current) return CUDA_ERROR_INVALID_HANDLE;
	s->ops.push_back(std::move(op));
	s->queued++;
	return CUDA_SUCCESS;
}

void *host_memory(const Device &d, const void *p, size_t bytes) {
	uint64_t at = (uint64_t)p;
	if (!inside(pinned, at, bytes) && !inside(d.registered, at, bytes))
		throw Violation("asynchronous copy of host memory that is neither pinned nor registered");
	return (void *)p;
}

}  // namespace

void *device_memory(uint64_t address, size_t bytes, const char *what) {
	if (!inside(devices[current].memory, address, bytes))
		throw Violation(std::string(what) + ": " + std::to_string(bytes) + " bytes are not inside one allocation");
	return (void *)address;
}

extern "C" {

CUresult cuInit(unsigned) { return device_count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int *v) { *v = 12040; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = device_count(); return CUDA_SUCCESS; }

CUresult cuDeviceGet(CUdevice *d, int ordinal) {
	if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
	*d = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *s, int n, CUdevice) { snprintf(s, n, "stand-in"); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice) { *n = memory_size(); return CUDA_SUCCESS; }

CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = major(); break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = multiprocessors(); break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = shared_limit(); break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char **s) {
	switch (r) {
	case CUDA_ERROR_OUT_OF_MEMORY: *s = "CUDA_ERROR_OUT_OF_MEMORY"; break;
	case CUDA_ERROR_NO_DEVICE: *s = "CUDA_ERROR_NO_DEVICE"; break;
	case CUDA_ERROR_ILLEGAL_ADDRESS: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
	default: *s = "CUDA_ERROR_OTHER";
	}
	return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char **s) { *s = "said the stand-in"; return CUDA_SUCCESS; }

// The primary context of device n is the handle n+1.
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	std::lock_guard<std::mutex> lock(one);
	devices[d].context_users++;
	*c = (CUcontext)(uintptr_t)(d + 1);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice n) {
	std::lock_guard<std::mutex> lock(one);
	Device &d = devices[n];
	if (--d.context_users > 0) return CUDA_SUCCESS;
	bool leaked = !d.memory.empty() || !d.registered.empty();
	if (leaked) fprintf(stderr, "stand-in: %zu allocations and %zu registrations left in the context\n", d.memory.size(), d.registered.size());
	for (auto &m : d.memory) free((void *)m.first);
	CUresult fault = d.fault;
	d = Device{};
	d.fault = fault;
	return leaked ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext c) { current = (int)(uintptr_t)c - 1; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = (CUcontext)(uintptr_t)(current + 1); return CUDA_SUCCESS; }

CUresult cuMemGetInfo(size_t *free, size_t *total) {
	return guarded([&](Device &d) { *total = memory_size(); *free = *total - d.used; return CUDA_SUCCESS; });
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
	return guarded([&](Device &d) {
		if (n == 0) return CUDA_ERROR_INVALID_VALUE;
		if (d.used + n > memory_size()) return CUDA_ERROR_OUT_OF_MEMORY;
		void *m;
		if (posix_memalign(&m, 512, n)) return CUDA_ERROR_OUT_OF_MEMORY;  // not a byte more, for the sanitizer's sake
		memset(m, 0xff, n);  // NaN in every float format
		d.memory[(uint64_t)m] = n;
		d.used += n;
		*p = (CUdeviceptr)m;
		return CUDA_SUCCESS;
	});
}

CUresult cuMemFree(CUdeviceptr p) {
	std::lock_guard<std::mutex> lock(one);  // also after a fault
	Device &d = devices[current];
	auto it = d.memory.find(p);
	if (it == d.memory.end()) return CUDA_ERROR_INVALID_VALUE;
	d.used -= it->second;
	d.memory.erase(it);
	free((void *)p);
	return d.fault;
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned) {
	return guarded([&](Device &) {
		*p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
		pinned[(uint64_t)*p] = n;
		return CUDA_SUCCESS;
	});
}

CUresult cuMemFreeHost(void *p) {
	std::lock_guard<std::mutex> lock(one);
	if (!pinned.erase((uint64_t)p)) return CUDA_ERROR_INVALID_VALUE;
	free(p);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t n, unsigned) {
	return guarded([&](Device &d) {
		uint64_t page = 4096, lo = (uint64_t)p / page * page, hi = ((uint64_t)p + n + page - 1) / page * page;
		for (auto &r : d.registered)
			if (lo < r.first + r.second && r.first < hi) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
		d.registered[(uint64_t)p] = n;
		return CUDA_SUCCESS;
	});
}

CUresult cuMemHostUnregister(void *p) {
	std::lock_guard<std::mutex> lock(one);
	Device &d = devices[current];
	return d.registered.erase((uint64_t)p) ? d.fault : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) {
	return guarded([&](Device &d) {
		return put(s, {[=, &d] { memcpy(device_memory(to, n, "upload"), host_memory(d, from, n), n); }, nullptr, 0});
	});
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s) {
	return guarded([&](Device &d) {
		return put(s, {[=, &d] { memcpy(host_memory(d, to, n), device_memory(from, n, "download"), n); }, nullptr, 0});
	});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
	return guarded([&](Device &) { return put(s, {[=] { if (n) memset(device_memory(to, n, "fill"), v, n); }, nullptr, 0}); });
}

// Called through dlsym: it is not in every toolkit's header.
CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *base, const uint64_t *dims, const uint64_t *strides,
	const uint32_t *box, const uint32_t *, int, int swizzle, int, int) {
	return guarded([&](Device &) {
		bool ok = type == 1 && rank == 2 && (uint64_t)base % 16 == 0 && strides[0] % 16 == 0 && strides[0] == 2 * dims[0] && box[0] == 64 && swizzle == 3;
		if (!ok || (uint64_t)map % 64) return CUDA_ERROR_INVALID_VALUE;
		const TensorMap m{(uint64_t)base, dims[0], dims[1], box[1], box[0], strides[0], TensorMap::MAGIC, {}};
		memcpy(map, &m, sizeof m);
		return CUDA_SUCCESS;
	});
}

CUresult cuStreamCreate(CUstream *s, unsigned) {
	return guarded([&](Device &) {
		Stream *made = new Stream;
		made->device = current;
		*s = (CUstream)made;
		return CUDA_SUCCESS;
	});
}

CUresult cuStreamDestroy(CUstream s) {
	std::lock_guard<std::mutex> lock(one);
	delete (Stream *)s;  // what still waits in it never happens
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream s) {
	return guarded([&](Device &) { advance((Stream *)s, ((Stream *)s)->queued); return CUDA_SUCCESS; });
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
	return guarded([&](Device &) {
		Event *ev = (Event *)e;
		return put(s, {nullptr, ev->stream, ev->upto});
	});
}

CUresult cuEventCreate(CUevent *e, unsigned) { *e = (CUevent) new Event; return CUDA_SUCCESS; }
CUresult cuEventDestroy(CUevent e) { delete (Event *)e; return CUDA_SUCCESS; }

CUresult cuEventRecord(CUevent e, CUstream s) {
	return guarded([&](Device &) {
		Event *ev = (Event *)e;
		CUresult r = put(s, {[ev] { clock_gettime(CLOCK_MONOTONIC, &ev->passed); }, nullptr, 0});
		ev->stream = (Stream *)s;
		ev->upto = ev->stream->queued;
		return r;
	});
}

CUresult cuEventSynchronize(CUevent e) {
	return guarded([&](Device &) {
		Event *ev = (Event *)e;
		if (ev->stream) advance(ev->stream, ev->upto);
		return CUDA_SUCCESS;
	});
}

// The work before an event gets done when it has been asked for often enough.
CUresult cuEventQuery(CUevent e) {
	return guarded([&](Device &) {
		Event *ev = (Event *)e;
		if (!ev->stream || ev->stream->done >= ev->upto) return CUDA_SUCCESS;
		if (++ev->asked % 4) return CUDA_ERROR_NOT_READY;
		advance(ev->stream, ev->upto);
		return CUDA_SUCCESS;
	});
}

CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	timespec x = ((Event *)a)->passed, y = ((Event *)b)->passed;
	*ms = (y.tv_sec - x.tv_sec) * 1e3f + (y.tv_nsec - x.tv_nsec) / 1e6f;
	return CUDA_SUCCESS;
}

// An image is told by its first bytes: PTX is text, a cubin is an ELF file and for compute capability 9 here.
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *option, void **value) {
	return guarded([&](Device &) {
		if (strstr((const char *)image, ".version 99")) {
			for (unsigned k = 0; k < n; k++)
				if (option[k] == CU_JIT_ERROR_LOG_BUFFER) strcpy((char *)value[k], "version 99 is not supported");
			return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
		}
		if (!memcmp(image, "\x7f" "ELF", 4)) {
			if (major() != 9) return CUDA_ERROR_NO_BINARY_FOR_GPU;
		} else if (!strstr((const char *)image, ".version")) {
			return CUDA_ERROR_INVALID_IMAGE;
		}
		*m = (CUmodule) new Module{current};
		return CUDA_SUCCESS;
	});
}

CUresult cuModuleUnload(CUmodule m) { delete (Module *)m; return CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction *f, CUmodule, const char *name) {
	if (!known_kernel(name)) return CUDA_ERROR_NOT_FOUND;
	*f = (CUfunction) new Function{name};
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
	if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || v > shared_limit()) return CUDA_ERROR_INVALID_VALUE;
	((Function *)f)->shared = v;
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, CUstream s, void **params, void **extra) {
	return guarded([&](Device &) {
		const Function *fn = (Function *)f;
		if (!params || extra) return CUDA_ERROR_INVALID_VALUE;
		if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || bx * by * bz > 1024 || shared > fn->shared) return CUDA_ERROR_INVALID_VALUE;
		Launch l{fn->name, {gx, gy, gz}, {bx, by, bz}, shared, std::string((char *)params[0], parameter_bytes(fn->name))};
		return put(s, {[l] { run_kernel(l, multiprocessors()); }, nullptr, 0});
	});
}

// cuLaunchKernelEx, called through dlsym and under another name here because not every toolkit's header has it. Streams run
// one kernel after the other all the same: a kernel that may begin early waits before it does anything. That only the
// images for compute capability 9.0 hold such kernels is checked.
struct LaunchAttribute { unsigned id, pad; int allowed, rest[15]; };
struct LaunchConfig { unsigned grid[3], block[3], shared; CUstream stream; const LaunchAttribute *attributes; unsigned count; };
CUresult launch_ex(const LaunchConfig *c, CUfunction f, void **params, void **extra) __asm__("cuLaunchKernelEx");
CUresult launch_ex(const LaunchConfig *c, CUfunction f, void **params, void **extra) {
	constexpr unsigned programmatic_stream_serialization = 6;
	for (unsigned n = 0; n < c->count; n++) {
		if (c->attributes[n].id != programmatic_stream_serialization || c->attributes[n].allowed != 1) return CUDA_ERROR_INVALID_VALUE;
		if (major() != 9) return CUDA_ERROR_NOT_SUPPORTED;
	}
	return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream, params, extra);
}

}  // extern "C"
