// A layer between the OpenCL loader and an implementation for CPUs, which makes the CPU devices look like GPUs: a
// buffer's memory is allocated at its first use, memory may be scarce, and copies are expected to use page-locked host
// memory.
//
// The loader (ocl-icd 2.3 and later) opens the library that OPENCL_LAYERS names. Variables:
// - STANDIN_HOLDS: number of bytes of used buffers. A call that needs more is refused, and nothing is enqueued.
// - STANDIN_REFUSAL: the error code of a refusal; CL_MEM_OBJECT_ALLOCATION_FAILURE (-4) by default.
// - STANDIN_REPORT: the file to write at exit, with the calls made and the objects left.
//
// The layer cannot show where implementations for GPUs differ from the manual. It assumes that the next launch uses all
// arguments of a kernel that were set, because the runtime sets all arguments before each launch.

#include <CL/cl_ext.h>
#include <CL/cl_layer.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace {

const cl_icd_dispatch *target;
cl_icd_dispatch layer;
std::mutex lock;

struct Buffer {
    size_t bytes;
    bool in_host_memory; // CL_MEM_ALLOC_HOST_PTR
    bool used;
};
std::map<cl_mem, Buffer> buffers;
std::map<cl_kernel, std::map<cl_uint, cl_mem>> arguments;
/// Page-locked memory: the length of each range by its first address.
std::map<uintptr_t, size_t> mapped;
size_t used_bytes;
std::map<const char *, long, bool (*)(const char *, const char *)> counts([](auto a, auto b) { return strcmp(a, b) < 0; });

size_t number(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

void count(const char *what) {
    std::lock_guard guard(lock);
    counts[what]++;
}

/// Allocates memory for buffers that are used for the first time. Returns CL_SUCCESS, or the error code of the refusal.
cl_int use(const std::vector<cl_mem> &all) {
    static const size_t holds = number("STANDIN_HOLDS", SIZE_MAX);
    static const char *code = getenv("STANDIN_REFUSAL");
    std::lock_guard guard(lock);
    for (cl_mem one : all) {
        auto found = buffers.find(one);
        if (found == buffers.end() || found->second.used || found->second.in_host_memory) continue;
        if (found->second.bytes > holds - std::min(holds, used_bytes)) {
            counts["refused allocations"]++;
            return code ? atoi(code) : CL_MEM_OBJECT_ALLOCATION_FAILURE;
        }
        found->second.used = true;
        used_bytes += found->second.bytes;
    }
    return CL_SUCCESS;
}

/// Counts a copy between a device and the host.
void copied(const void *first, size_t bytes, const char *locked, const char *pageable) {
    std::lock_guard guard(lock);
    auto begin = reinterpret_cast<uintptr_t>(first);
    auto next = mapped.upper_bound(begin);
    bool is_locked = next != mapped.begin() && (--next, begin + bytes <= next->first + next->second);
    counts[is_locked ? locked : pageable]++;
}

void report() {
    const char *path = getenv("STANDIN_REPORT");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    for (auto &[what, times] : counts) fprintf(file, "%s %ld\n", what, times);
    fprintf(file, "live buffers %zu\nlive mapped buffers %zu\n", buffers.size(), mapped.size());
    fclose(file);
}

cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info name, size_t size, void *value, size_t *size_out) {
    cl_int result = target->clGetDeviceInfo(device, name, size, value, size_out);
    if (result == CL_SUCCESS && name == CL_DEVICE_TYPE && value) {
        *static_cast<cl_device_type *>(value) = CL_DEVICE_TYPE_GPU;
    }
    return result;
}

cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error) {
    cl_mem made = target->clCreateBuffer(context, flags, bytes, host, error);
    if (made) {
        std::lock_guard guard(lock);
        buffers[made] = {bytes, (flags & CL_MEM_ALLOC_HOST_PTR) != 0, false};
    }
    return made;
}

cl_int CL_API_CALL release(cl_mem memory) {
    {
        std::lock_guard guard(lock);
        auto found = buffers.find(memory);
        if (found != buffers.end()) {
            used_bytes -= found->second.used ? found->second.bytes : 0;
            buffers.erase(found);
        }
    }
    return target->clReleaseMemObject(memory);
}

cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    if (size == sizeof(cl_mem) && value) {
        cl_mem memory;
        memcpy(&memory, value, sizeof memory);
        std::lock_guard guard(lock);
        arguments[kernel][index] = memory; // a value that is not a buffer is not found later
    }
    return target->clSetKernelArg(kernel, index, size, value);
}

cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                          const size_t *threads, const size_t *group, cl_uint waits, const cl_event *wait, cl_event *event) {
    std::vector<cl_mem> all;
    {
        std::lock_guard guard(lock);
        for (auto &[index, memory] : arguments[kernel]) all.push_back(memory);
        counts["launches on stream"]++;
    }
    if (cl_int refused = use(all)) return refused;
    return target->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, threads, group, waits, wait, event);
}

cl_int CL_API_CALL write(cl_command_queue queue, cl_mem to, cl_bool blocking, size_t offset, size_t bytes, const void *from,
                         cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({to})) return refused;
    copied(from, bytes, "locked copies in", "pageable copies");
    return target->clEnqueueWriteBuffer(queue, to, blocking, offset, bytes, from, waits, wait, event);
}

cl_int CL_API_CALL read(cl_command_queue queue, cl_mem from, cl_bool blocking, size_t offset, size_t bytes, void *to,
                        cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({from})) return refused;
    copied(to, bytes, "locked copies out", "pageable copies");
    return target->clEnqueueReadBuffer(queue, from, blocking, offset, bytes, to, waits, wait, event);
}

size_t span(const size_t *region, size_t row, size_t slice) {
    return (region[2] - 1) * slice + (region[1] - 1) * row + region[0];
}

cl_int CL_API_CALL write_box(cl_command_queue queue, cl_mem to, cl_bool blocking, const size_t *to_origin,
                             const size_t *from_origin, const size_t *region, size_t to_row, size_t to_slice, size_t from_row,
                             size_t from_slice, const void *from, cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({to})) return refused;
    copied(from, span(region, from_row, from_slice), "locked copies in", "pageable copies");
    return target->clEnqueueWriteBufferRect(queue, to, blocking, to_origin, from_origin, region, to_row, to_slice, from_row,
                                            from_slice, from, waits, wait, event);
}

cl_int CL_API_CALL read_box(cl_command_queue queue, cl_mem from, cl_bool blocking, const size_t *from_origin,
                            const size_t *to_origin, const size_t *region, size_t from_row, size_t from_slice, size_t to_row,
                            size_t to_slice, void *to, cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({from})) return refused;
    copied(to, span(region, to_row, to_slice), "locked copies out", "pageable copies");
    return target->clEnqueueReadBufferRect(queue, from, blocking, from_origin, to_origin, region, from_row, from_slice, to_row,
                                           to_slice, to, waits, wait, event);
}

cl_int CL_API_CALL copy(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes,
                        cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({from, to})) return refused;
    count("copies across");
    return target->clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, waits, wait, event);
}

cl_int CL_API_CALL copy_box(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin, const size_t *to_origin,
                            const size_t *region, size_t from_row, size_t from_slice, size_t to_row, size_t to_slice,
                            cl_uint waits, const cl_event *wait, cl_event *event) {
    if (cl_int refused = use({from, to})) return refused;
    count("copies across");
    return target->clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin, region, from_row, from_slice, to_row,
                                           to_slice, waits, wait, event);
}

void *CL_API_CALL map(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset, size_t bytes,
                      cl_uint waits, const cl_event *wait, cl_event *event, cl_int *error) {
    void *first =
        target->clEnqueueMapBuffer(queue, memory, blocking, flags, offset, bytes, waits, wait, event, error);
    std::lock_guard guard(lock);
    if (first && buffers[memory].in_host_memory) mapped[reinterpret_cast<uintptr_t>(first)] = bytes;
    return first;
}

cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem memory, void *first, cl_uint waits, const cl_event *wait,
                         cl_event *event) {
    {
        std::lock_guard guard(lock);
        mapped.erase(reinterpret_cast<uintptr_t>(first));
    }
    return target->clEnqueueUnmapMemObject(queue, memory, first, waits, wait, event);
}

// Command buffers, whose functions are not in the dispatch table. Counts how many exist and how often they are
// enqueued.
clCreateCommandBufferKHR_fn create_commands_below;
clReleaseCommandBufferKHR_fn release_commands_below;
clEnqueueCommandBufferKHR_fn enqueue_commands_below;

cl_command_buffer_khr CL_API_CALL create_commands(cl_uint queues, const cl_command_queue *queue,
                                                  const cl_command_buffer_properties_khr *properties, cl_int *error) {
    cl_command_buffer_khr made = create_commands_below(queues, queue, properties, error);
    std::lock_guard guard(lock);
    counts["live graphs"] += made != nullptr;
    return made;
}

cl_int CL_API_CALL release_commands(cl_command_buffer_khr commands) {
    {
        std::lock_guard guard(lock);
        counts["live graphs"]--;
    }
    return release_commands_below(commands);
}

cl_int CL_API_CALL enqueue_commands(cl_uint queues, cl_command_queue *queue, cl_command_buffer_khr commands, cl_uint waits,
                                    const cl_event *wait, cl_event *event) {
    count("graph launches");
    return enqueue_commands_below(queues, queue, commands, waits, wait, event);
}

template <class F> void *above(F &below, void *found, F ours) {
    below = reinterpret_cast<F>(found);
    return found ? reinterpret_cast<void *>(ours) : nullptr;
}

void *CL_API_CALL extension(cl_platform_id platform, const char *name) {
    void *found = target->clGetExtensionFunctionAddressForPlatform(platform, name);
    if (!strcmp(name, "clCreateCommandBufferKHR")) return above(create_commands_below, found, &create_commands);
    if (!strcmp(name, "clReleaseCommandBufferKHR")) return above(release_commands_below, found, &release_commands);
    if (!strcmp(name, "clEnqueueCommandBufferKHR")) return above(enqueue_commands_below, found, &enqueue_commands);
    return found;
}

} // namespace

extern "C" cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_out) {
    if (name == CL_LAYER_API_VERSION) {
        cl_layer_api_version version = CL_LAYER_API_VERSION_100;
        if (value && size >= sizeof version) memcpy(value, &version, sizeof version);
        if (size_out) *size_out = sizeof version;
        return CL_SUCCESS;
    }
    return CL_INVALID_VALUE;
}

extern "C" cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *below, cl_uint *entries_out,
                                          const cl_icd_dispatch **above) {
    if (entries < sizeof layer / sizeof(void *)) return CL_INVALID_VALUE;
    target = below;
    layer = *below;
    layer.clGetDeviceInfo = device_info;
    layer.clCreateBuffer = create_buffer;
    layer.clReleaseMemObject = release;
    layer.clSetKernelArg = set_argument;
    layer.clEnqueueNDRangeKernel = launch;
    layer.clEnqueueWriteBuffer = write;
    layer.clEnqueueReadBuffer = read;
    layer.clEnqueueWriteBufferRect = write_box;
    layer.clEnqueueReadBufferRect = read_box;
    layer.clEnqueueCopyBuffer = copy;
    layer.clEnqueueCopyBufferRect = copy_box;
    layer.clEnqueueMapBuffer = map;
    layer.clEnqueueUnmapMemObject = unmap;
    layer.clGetExtensionFunctionAddressForPlatform = extension;
    *above = &layer;
    *entries_out = sizeof layer / sizeof(void *);
    atexit(report);
    return CL_SUCCESS;
}
