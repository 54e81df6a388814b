// The entry points of the HIP runtime and of hipRTC that the backend and its tests use.
//
// Environment variable, besides those in core.hpp: STANDIN_HIP, the version of the runtime (60200000).
#include "core.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace standin;

static thread_local Device *current = nullptr;

/// Counts a call, and refuses it after an error. The first device is the initial current device of each thread.
#define ON_DEVICE                                    \
    CALLED;                                          \
    if (!current) current = devices()[0];            \
    if (current->stuck) return current->stuck

static Device *at(int number) {
    return number >= 0 && number < (int)devices().size() ? devices()[number] : nullptr;
}
enum Kind : unsigned { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };

extern "C" {

Code hipInit(unsigned) { CALLED; fault_ends_process = true; return SUCCESS; }
Code hipRuntimeGetVersion(int *version) { *version = setting("STANDIN_HIP", 60200000); return SUCCESS; }
Code hipGetDeviceCount(int *number) { *number = devices().size(); return SUCCESS; }
Code hipDeviceGetName(char *name, int bytes, int device) { snprintf(name, bytes, "Stand-in %d", device); return SUCCESS; }
Code hipDeviceTotalMem(size_t *bytes, int device) { *bytes = at(device)->capacity; return SUCCESS; }
Code hipDeviceGetPCIBusId(char *name, int bytes, int device) { snprintf(name, bytes, "0000:%02X:00.0", device); return SUCCESS; }
Code hipDeviceGetAttribute(int *value, int attribute, int) {
    if (attribute == 88) return *value = setting("STANDIN_POOLS", 1), SUCCESS;
    if (attribute == 74) return *value = 64 << 10, SUCCESS; // most shared memory
    *value = attribute == 24 ? setting("STANDIN_MANAGED", 1) : attribute == 9 ? setting("STANDIN_CONCURRENT", 1) : 4;
    return SUCCESS;
}
Code hipDeviceCanAccessPeer(int *can, int, int) { *can = setting("STANDIN_PEERS", 1); return SUCCESS; }
Code hipGetDevicePropertiesR0600(char *properties, int device) {
    if (!at(device)) return INVALID_DEVICE;
    strcpy(properties + 1160, "gfx90a:sramecc+:xnack-"); // the offset of the architecture in ROCm 6
    return SUCCESS;
}
const char *hipGetErrorString(unsigned code) {
    static thread_local char place[40];
    snprintf(place, sizeof place, "the stand-in's error %u", code);
    return place;
}

Code hipSetDevice(int number) { CALLED; current = at(number); return current ? SUCCESS : INVALID_DEVICE; }
Code hipGetDevice(int *number) { CALLED; *number = current ? current->number : 0; return SUCCESS; }
Code hipDeviceEnablePeerAccess(int peer, unsigned) {
    ON_DEVICE;
    if (!setting("STANDIN_PEERS", 1)) return 217;
    std::lock_guard guard(current->lock);
    return current->peers.insert(at(peer)).second ? SUCCESS : PEER_ALREADY_ENABLED;
}

Code hipMemGetInfo(size_t *free, size_t *total) {
    ON_DEVICE;
    std::lock_guard guard(current->lock);
    *free = current->capacity - current->used, *total = current->capacity;
    return SUCCESS;
}
Code hipMalloc(void **address, size_t bytes) { ON_DEVICE; return current->allocate(bytes, address); }
Code hipFree(void *address) { CALLED; return current ? release(current, address) : (Code)INVALID_DEVICE; }
Code hipDeviceGetDefaultMemPool(Device **pool, int device) { CALLED; *pool = at(device); return SUCCESS; }
Code hipMemPoolSetAttribute(Device *pool, int attribute, const uint64_t *value) {
    CALLED;
    return pool->set_pool(attribute, value);
}
Code hipMemPoolSetAccess(Device *pool, const PoolAccess *list, size_t number) {
    CALLED;
    return pool->share_pool(list, number, at);
}
Code hipMallocAsync(void **address, size_t bytes, Stream *stream) {
    ON_DEVICE;
    return stream->device == current ? current->allocate_pooled(bytes, address) : (Code)INVALID_HANDLE;
}
Code hipFreeAsync(void *address, Stream *stream) { ON_DEVICE; return stream->device->release_pooled(address); }
Code hipMallocManaged(void **address, size_t bytes, unsigned flags) {
    ON_DEVICE;
    return flags == 1 ? allocate_managed(current, address, bytes) : (Code)INVALID_VALUE; // for all streams
}
Code hipMemPrefetchAsync(const void *first, size_t bytes, int device, Stream *stream) {
    ON_DEVICE;
    if (device != -1 && !at(device)) return INVALID_DEVICE;
    return prefetch(current, stream, (uintptr_t)first, bytes, device == -1 ? nullptr : at(device));
}
Code hipHostRegister(void *first, size_t bytes, unsigned) { ON_DEVICE; return page_lock_existing(current, first, bytes); }
Code hipHostUnregister(void *first) { CALLED; return page_unlock(first); }
Code hipHostMalloc(void **address, size_t bytes, unsigned) { ON_DEVICE; return allocate_host(address, bytes); }
Code hipHostFree(void *address) { CALLED; return free_host(address); }
Code hipPointerGetAttribute(void *value, unsigned attribute, void *address) {
    ON_DEVICE;
    if (attribute == 11 || attribute == 12) { // the beginning and the size of a range
        uintptr_t first;
        size_t bytes;
        if (!locked_range((uintptr_t)address, &first, &bytes)) return INVALID_VALUE;
        *(uint64_t *)value = attribute == 11 ? first : bytes;
        return SUCCESS;
    }
    Device *owner = allocator_of((uintptr_t)address);
    if (!owner) return INVALID_VALUE;
    *(int *)value = owner->number;
    return SUCCESS;
}

Code hipStreamCreateWithFlags(Stream **stream, unsigned) { ON_DEVICE; *stream = Stream::create(current); return SUCCESS; }
Code hipStreamDestroy(Stream *stream) { CALLED; Stream::destroy(stream); return SUCCESS; }
Code hipStreamQuery(Stream *stream) { ON_DEVICE; return Stream::is_there(stream) ? SUCCESS : INVALID_HANDLE; }
Code hipStreamSynchronize(Stream *stream) { ON_DEVICE; return synchronize(Stream::named(stream, current)); }
Code hipStreamWaitEvent(Stream *stream, EventHandle *event, unsigned) {
    ON_DEVICE;
    if (stream->device != current) return INVALID_HANDLE;
    wait(stream, *event);
    return SUCCESS;
}
Code hipEventCreateWithFlags(EventHandle **event, unsigned flags) {
    ON_DEVICE;
    count("live events");
    if (!(flags & 0x20000000)) count("events with system fences"); // hipEventDisableSystemFence
    if (!(flags & 2)) count("timed events"); // hipEventDisableTiming
    *event = new EventHandle(std::make_shared<Event>(current, !(flags & 2)));
    return SUCCESS;
}
Code hipEventDestroy(EventHandle *event) { CALLED; count("live events", -1); delete event; return SUCCESS; }
Code hipEventRecord(EventHandle *event, Stream *stream) {
    ON_DEVICE;
    if ((*event)->device != stream->device || stream->device != current) return INVALID_HANDLE;
    record(stream, *event);
    return SUCCESS;
}
Code hipEventElapsedTime(float *ms, EventHandle *from, EventHandle *to) { ON_DEVICE; return elapsed(ms, *from, *to); }
Code hipEventQuery(EventHandle *event) { ON_DEVICE; return (*event)->has_come((*event)->last()) ? SUCCESS : NOT_READY; }
Code hipEventSynchronize(EventHandle *event) { ON_DEVICE; (*event)->wait_for((*event)->last()); return current->stuck; }

static End end_of(const void *first, bool is_host, size_t pitch, size_t height, Device *device) {
    return {(char *)first, pitch, height, is_host, is_host ? nullptr : device};
}
Code hipMemcpyAsync(void *to, const void *from, size_t bytes, unsigned kind, Stream *stream) {
    ON_DEVICE;
    return copy(current, stream, {end_of(from, kind == HOST_TO_DEVICE, bytes, 1, current),
                         end_of(to, kind == DEVICE_TO_HOST, bytes, 1, current), bytes, 1, 1});
}
Code hipMemcpyPeerAsync(void *to, int target, const void *from, int source, size_t bytes, Stream *stream) {
    ON_DEVICE;
    return copy(current, stream, {end_of(from, false, bytes, 1, at(source)), end_of(to, false, bytes, 1, at(target)), bytes, 1, 1});
}
struct Pitched { void *first; size_t pitch, width, height; };
struct BoxCopy {
    void *from_array;
    size_t from_at[3];
    Pitched from;
    void *to_array;
    size_t to_at[3];
    Pitched to;
    size_t width, rows, slices;
    unsigned kind;
};
Code hipMemcpy3DAsync(const BoxCopy *box, Stream *stream) {
    ON_DEVICE;
    Device *source = current;
    if (box->kind == DEVICE_TO_DEVICE) {
        source = owner_of((uintptr_t)box->from.first);
        std::lock_guard guard(current->lock);
        if (source != current && !current->peers.count(source)) return INVALID_VALUE; // the call does not name both devices
    }
    return copy(current, stream, {end_of(box->from.first, box->kind == HOST_TO_DEVICE, box->from.pitch, box->from.height, source),
                         end_of(box->to.first, box->kind == DEVICE_TO_HOST, box->to.pitch, box->to.height, current),
                         box->width, box->rows, box->slices});
}

Code hipModuleLoadData(Module **module, const void *image) { ON_DEVICE; return load(image, module); }
Code hipModuleUnload(Module *module) { CALLED; return unload(module); }
Code hipModuleGetFunction(Function **found, Module *module, const char *name) { ON_DEVICE; return function(module, name, found); }
Code hipModuleLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned in_x, unsigned in_y, unsigned in_z,
                           unsigned shared, Stream *stream, void **arguments, void **) {
    ON_DEVICE;
    if (stream->device != current) return INVALID_HANDLE;
    if (shared > 64 << 10) return INVALID_VALUE;
    count_shape(shared, nullptr, false);
    unsigned grid[3] = {x, y, z}, block[3] = {in_x, in_y, in_z};
    return launch(stream, function, grid, block, arguments);
}
Code hipModuleLaunchCooperativeKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned in_x, unsigned in_y,
                                      unsigned in_z, unsigned shared, Stream *stream, void **arguments) {
    ON_DEVICE;
    if (stream->device != current) return INVALID_HANDLE;
    count_shape(shared, nullptr, true);
    unsigned grid[3] = {x, y, z}, block[3] = {in_x, in_y, in_z};
    return launch(stream, function, grid, block, arguments);
}

struct KernelNode {
    unsigned block[3];
    void **others;
    Function *function;
    unsigned grid[3];
    void **arguments;
    unsigned shared;
};
Code hipGraphCreate(Graph **graph, unsigned) { ON_DEVICE; return create(graph); }
Code hipGraphAddKernelNode(Node **node, Graph *graph, Node *const *before, size_t number, const KernelNode *kernel) {
    ON_DEVICE;
    return add(graph, before, number, kernel->function, kernel->grid, kernel->block, kernel->arguments, node);
}
Code hipGraphInstantiateWithFlags(Instance **instance, Graph *graph, unsigned long long) { ON_DEVICE; return instantiate(graph, instance); }
Code hipGraphExecKernelNodeSetParams(Instance *instance, Node *node, const KernelNode *kernel) {
    ON_DEVICE;
    return set(instance, node, kernel->function, kernel->grid, kernel->block, kernel->arguments);
}
Code hipGraphLaunch(Instance *instance, Stream *stream) {
    ON_DEVICE;
    return stream->device == current ? launch(stream, instance) : (Code)INVALID_HANDLE;
}
Code hipGraphExecDestroy(Instance *instance) { CALLED; return destroy(instance); }
Code hipGraphDestroy(Graph *graph) { CALLED; return destroy(graph); }

// hipRTC
Code hiprtcVersion(int *major, int *minor) { *major = 9, *minor = 0; return 0; }
Code hiprtcCreateProgram(Unit **unit, const char *source, const char *name, int, const char *const *, const char *const *) {
    *unit = new Unit;
    (*unit)->source = source, (*unit)->name = name;
    return 0;
}
Code hiprtcDestroyProgram(Unit **unit) { delete *unit; *unit = nullptr; return 0; }
Code hiprtcCompileProgram(Unit *unit, int number, const char *const *options) {
    return unit->compile(std::vector<std::string>(options, options + number), false) ? 0 : 6;
}
Code hiprtcGetProgramLogSize(Unit *unit, size_t *bytes) { *bytes = unit->log.size() + 1; return 0; }
Code hiprtcGetProgramLog(Unit *unit, char *to) { strcpy(to, unit->log.c_str()); return 0; }
Code hiprtcGetCodeSize(Unit *unit, size_t *bytes) { *bytes = image_of(unit->object, false, 0, 0).size(); return 0; }
Code hiprtcGetCode(Unit *unit, char *to) { auto code = image_of(unit->object, false, 0, 0); memcpy(to, code.data(), code.size()); return 0; }

} // extern "C"
