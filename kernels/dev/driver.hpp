// The driver calls that the harness needs, with every return code checked.
#pragma once
#include <cuda.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#define CK(x)                                                                        \
  do {                                                                               \
    CUresult r_ = (x);                                                               \
    if (r_ != CUDA_SUCCESS) {                                                        \
      const char* s_ = "?";                                                          \
      cuGetErrorString(r_, &s_);                                                     \
      printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, s_);                          \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

// The device, the images and every kernel by name.
struct Gpu {
  CUdevice dev;
  CUcontext ctx;
  CUstream stream, second;
  CUevent fork, join;
  int sms = 0, major = 0, minor = 0;
  char name[128];
  enum { COMMON, SM80, SM90A };
  struct Image {
    std::string code;
    bool awaits;  // its kernels await earlier launches themselves
    CUmodule module = nullptr;
  };
  std::vector<Image> images;
  bool overlap = true;       // let them begin early
  size_t common = COMMON, forward = SM90A;  // the images of kernels without a suffix and with "_sm90a": bench tries others
  std::map<std::pair<size_t, std::string>, CUfunction> found;
  std::map<CUfunction, int> shared;
  std::set<std::string> kernels;  // of all images

  // A variant of an image can be tried by naming it in the environment: MAXSIM, FORWARD_SM80, FORWARD_SM90A.
  explicit Gpu(const std::string& folder) {
    CK(cuInit(0));
    CK(cuDeviceGet(&dev, 0));
    CK(cuDevicePrimaryCtxRetain(&ctx, dev));
    CK(cuCtxSetCurrent(ctx));
    CK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
    CK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
    CK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev));
    CK(cuDeviceGetName(name, sizeof name, dev));
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    auto image = [&](const char* variant, const char* file) {
      const char* v = getenv(variant);
      load(v ? v : folder + "/" + file);
    };
    const bool hopper = major == 9 && minor == 0;
    image("MAXSIM", hopper ? "maxsim_sm90.cubin" : "maxsim.ptx");
    image("FORWARD_SM80", "forward_sm80.ptx");
    if (hopper) image("FORWARD_SM90A", "forward_sm90a.cubin");
  }
  size_t load(const std::string& path) {
    std::ifstream f(path, std::ios::binary);
    std::stringstream s;
    s << f.rdbuf();
    std::string image = s.str();
    if (image.empty()) { printf("no image %s\n", path.c_str()); exit(1); }
    images.push_back({image, image.compare(0, 4, "\x7f" "ELF") == 0});  // all cubins are for compute capability 9.0
    // A kernel is an .entry of PTX, a section .text.NAME of a cubin.
    static const std::regex entry("\\.(entry |text\\.)(maxsim_\\w+)");
    for (std::sregex_iterator it(image.begin(), image.end(), entry), end; it != end; ++it) kernels.insert((*it)[2]);
    return images.size() - 1;
  }
  bool has_common(size_t image) const { return images[image].code.find("maxsim_row_owner") != std::string::npos; }
  // The kernels that nothing has launched.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto& k : kernels)
      if (!found.count({image_of(k), k})) names.push_back(k);
    return names;
  }
  size_t image_of(const std::string& kernel) const {
    return kernel.find("_sm80") != std::string::npos ? SM80 : kernel.find("_sm90a") != std::string::npos ? forward : common;
  }
  CUfunction get(const std::string& kernel) {
    const size_t module = image_of(kernel);
    auto it = found.find({module, kernel});
    if (it != found.end()) return it->second;
    if (module < images.size() && !images[module].module) CK(cuModuleLoadData(&images[module].module, images[module].code.c_str()));  // PTX takes seconds
    CUfunction f;
    if (module >= images.size() || cuModuleGetFunction(&f, images[module].module, kernel.c_str()) != CUDA_SUCCESS) {
      printf("no kernel %s\n", kernel.c_str());
      exit(1);
    }
    return found[{module, kernel}] = f;
  }
  template <class P> void launch(const std::string& kernel, const P& params, unsigned gx, unsigned gy, unsigned gz, unsigned block, int bytes, CUstream s) {
    if (gx == 0 || gy == 0 || gz == 0) return;
    CUfunction f = get(kernel);
    int& set = shared[f];
    if (bytes > set) { CK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)); set = bytes; }
    void* args[] = {(void*)&params};
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config{gx, gy, gz, block, 1, 1, (unsigned)bytes, s, &early, overlap && images[image_of(kernel)].awaits ? 1u : 0u};
    CUresult r = cuLaunchKernelEx(&config, f, args, nullptr);
    if (r != CUDA_SUCCESS) { printf("launch %s (%u,%u,%u)x%u %d bytes\n", kernel.c_str(), gx, gy, gz, block, bytes); CK(r); }
  }
  void sync() { CK(cuStreamSynchronize(stream)); }
};

// Device memory, poisoned when it is made.
struct Buffer {
  CUdeviceptr p = 0;
  size_t bytes = 0;
  Buffer() = default;
  explicit Buffer(size_t n, int poison = 0xA5) : bytes(n) {
    if (n == 0) return;
    CK(cuMemAlloc(&p, n));
    CK(cuMemsetD8(p, (unsigned char)poison, n));
  }
  template <class T> explicit Buffer(const std::vector<T>& v) : Buffer(v.size() * sizeof(T)) {
    if (!v.empty()) CK(cuMemcpyHtoD(p, v.data(), bytes));
  }
  Buffer(Buffer&& o) noexcept { std::swap(p, o.p); std::swap(bytes, o.bytes); }
  Buffer& operator=(Buffer&& o) noexcept { std::swap(p, o.p); std::swap(bytes, o.bytes); return *this; }
  ~Buffer() { if (p) cuMemFree(p); }
  template <class T> std::vector<T> host() const {
    std::vector<T> v(bytes / sizeof(T));
    if (!v.empty()) CK(cuMemcpyDtoH(v.data(), p, v.size() * sizeof(T)));
    return v;
  }
};
