// The entry points of the CUDA driver and of NVRTC that the runtime and its tests use.
//
// Environment variables, besides those in core.hpp:
// - STANDIN_ARCH: compute capability of the devices (90).
// - STANDIN_DRIVER: version of the driver (13000).
// - STANDIN_NVRTC: version of the compiler (13000); 0 if it does not start.
// - STANDIN_REFUSE_CODE: whether the driver only accepts PTX (0).
#include "core.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace standin;
using Address = unsigned long long;

static thread_local Device *current = nullptr;
static long driver() { return setting("STANDIN_DRIVER", 13000); }
static long compiler() { return setting("STANDIN_NVRTC", 13000); }
static long capability() { return setting("STANDIN_ARCH", 90); }

/// Counts a call that needs a context, and refuses it without a context or after an error.
#define IN_CONTEXT                                \
    CALLED;                                       \
    if (!current) return INVALID_CONTEXT;         \
    if (current->stuck) return current->stuck

static Device *at(int number) {
    return number >= 0 && number < (int)devices().size() ? devices()[number] : nullptr;
}
static End host(const void *first, size_t pitch, size_t height) { return {(char *)first, pitch, height, true, nullptr}; }
static End on(Device *device, Address first, size_t pitch, size_t height) {
    return {(char *)first, pitch, height, false, device};
}

extern "C" {

Code cuInit(unsigned) { CALLED; return SUCCESS; }
Code cuDriverGetVersion(int *version) { *version = driver(); return SUCCESS; }
Code cuDeviceGetCount(int *number) { *number = devices().size(); return SUCCESS; }
Code cuDeviceGet(int *device, int number) { *device = number; return at(number) ? SUCCESS : INVALID_DEVICE; }
Code cuDeviceGetName(char *name, int bytes, int device) { snprintf(name, bytes, "Stand-in %d", device); return SUCCESS; }
Code cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = at(device)->capacity; return SUCCESS; }
Code cuDeviceGetPCIBusId(char *name, int bytes, int device) { snprintf(name, bytes, "0000:%02X:00.0", device); return SUCCESS; }
Code cuDeviceCanAccessPeer(int *can, int, int) { *can = setting("STANDIN_PEERS", 1); return SUCCESS; }
Code cuDeviceGetAttribute(int *value, int attribute, int) {
    if (attribute == 83) return *value = setting("STANDIN_MANAGED", 1), SUCCESS;
    if (attribute == 89) return *value = setting("STANDIN_CONCURRENT", 1), SUCCESS;
    if (attribute == 115) return *value = setting("STANDIN_POOLS", 1), SUCCESS;
    if (attribute == 97) return *value = 227 << 10, SUCCESS;        // most shared memory
    if (attribute == 120) return *value = capability() >= 90, SUCCESS; // clusters
    *value = attribute == 75 ? capability() / 10 : attribute == 76 ? capability() % 10 : attribute == 16 ? 4 : 1;
    return SUCCESS;
}
Code cuGetErrorString(int code, const char **text) {
    static thread_local char place[40];
    snprintf(place, sizeof place, "the stand-in's error %d", code);
    *text = place;
    return SUCCESS;
}

Code cuDevicePrimaryCtxRetain(Device **context, int device) { CALLED; count("live contexts"); *context = at(device); return SUCCESS; }
Code cuDevicePrimaryCtxRelease_v2(int) { CALLED; count("live contexts", -1); return SUCCESS; }
Code cuCtxGetCurrent(Device **context) { CALLED; *context = current; return SUCCESS; }
Code cuCtxSetCurrent(Device *context) { CALLED; current = context; return SUCCESS; }
Code cuCtxEnablePeerAccess(Device *peer, unsigned) {
    IN_CONTEXT;
    if (!setting("STANDIN_PEERS", 1)) return 217;
    std::lock_guard guard(current->lock);
    return current->peers.insert(peer).second ? SUCCESS : PEER_ALREADY_ENABLED;
}

Code cuMemGetInfo_v2(size_t *free, size_t *total) {
    IN_CONTEXT;
    std::lock_guard guard(current->lock);
    *free = current->capacity - current->used, *total = current->capacity;
    return SUCCESS;
}
Code cuMemAlloc_v2(void **address, size_t bytes) { IN_CONTEXT; return current->allocate(bytes, address); }
Code cuMemFree_v2(void *address) { CALLED; return current ? release(current, address) : (Code)INVALID_CONTEXT; }
Code cuDeviceGetDefaultMemPool(Device **pool, int device) { CALLED; *pool = at(device); return SUCCESS; }
Code cuMemPoolSetAttribute(Device *pool, int attribute, const uint64_t *value) {
    CALLED;
    return pool->set_pool(attribute, value);
}
Code cuMemPoolSetAccess(Device *pool, const PoolAccess *list, size_t number) {
    CALLED;
    return pool->share_pool(list, number, at);
}
Code cuMemAllocAsync(void **address, size_t bytes, Stream *stream) {
    IN_CONTEXT;
    return stream->device == current ? current->allocate_pooled(bytes, address) : (Code)INVALID_HANDLE;
}
Code cuMemFreeAsync(void *address, Stream *stream) { IN_CONTEXT; return stream->device->release_pooled(address); }
Code cuMemAllocManaged(void **address, size_t bytes, unsigned flags) {
    IN_CONTEXT;
    return flags == 1 ? allocate_managed(current, address, bytes) : (Code)INVALID_VALUE; // for all streams
}
Code cuMemPrefetchAsync(Address first, size_t bytes, int device, Stream *stream) {
    IN_CONTEXT;
    if (device != -1 && !at(device)) return INVALID_DEVICE;
    return prefetch(current, stream, first, bytes, device == -1 ? nullptr : at(device));
}
Code cuMemHostRegister_v2(void *first, size_t bytes, unsigned) { IN_CONTEXT; return page_lock_existing(current, first, bytes); }
Code cuMemHostUnregister(void *first) { CALLED; return page_unlock(first); }
Code cuMemHostAlloc(void **address, size_t bytes, unsigned) { IN_CONTEXT; return allocate_host(address, bytes); }
Code cuMemFreeHost(void *address) { CALLED; return free_host(address); }
Code cuPointerGetAttribute(void *value, int attribute, Address address) {
    IN_CONTEXT;
    if (attribute == 11 || attribute == 12) { // the beginning and the size of a range
        uintptr_t first;
        size_t bytes;
        if (!locked_range(address, &first, &bytes)) return INVALID_VALUE;
        *(uint64_t *)value = attribute == 11 ? first : bytes;
        return SUCCESS;
    }
    Device *owner = allocator_of(address);
    if (!owner) return INVALID_VALUE;
    if (attribute == 9) *(int *)value = owner->number; // the ordinal
    else *(Device **)value = owner;                    // the context
    return SUCCESS;
}

Code cuStreamCreate(Stream **stream, unsigned) { IN_CONTEXT; *stream = Stream::create(current); return SUCCESS; }
Code cuStreamDestroy_v2(Stream *stream) { CALLED; Stream::destroy(stream); return SUCCESS; }
Code cuStreamQuery(Stream *stream) { IN_CONTEXT; return Stream::is_there(stream) ? SUCCESS : INVALID_HANDLE; }
Code cuStreamSynchronize(Stream *stream) { IN_CONTEXT; return synchronize(Stream::named(stream, current)); }
Code cuStreamWaitEvent(Stream *stream, EventHandle *event, unsigned) {
    IN_CONTEXT;
    if (stream->device != current) return INVALID_HANDLE;
    wait(stream, *event);
    return SUCCESS;
}
Code cuEventCreate(EventHandle **event, unsigned flags) {
    IN_CONTEXT;
    count("live events");
    if (!(flags & 2)) count("timed events"); // CU_EVENT_DISABLE_TIMING
    *event = new EventHandle(std::make_shared<Event>(current, !(flags & 2)));
    return SUCCESS;
}
Code cuEventDestroy_v2(EventHandle *event) { CALLED; count("live events", -1); delete event; return SUCCESS; }
Code cuEventRecord(EventHandle *event, Stream *stream) {
    IN_CONTEXT;
    if ((*event)->device != stream->device || stream->device != current) return INVALID_HANDLE;
    record(stream, *event);
    return SUCCESS;
}
Code cuEventElapsedTime(float *ms, EventHandle *from, EventHandle *to) { IN_CONTEXT; return elapsed(ms, *from, *to); }
Code cuEventQuery(EventHandle *event) { IN_CONTEXT; return (*event)->has_come((*event)->last()) ? SUCCESS : NOT_READY; }
Code cuEventSynchronize(EventHandle *event) { IN_CONTEXT; (*event)->wait_for((*event)->last()); return current->stuck; }

Code cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {host(from, bytes, 1), on(current, to, bytes, 1), bytes, 1, 1});
}
Code cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {on(current, from, bytes, 1), host(to, bytes, 1), bytes, 1, 1});
}
Code cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {on(current, from, bytes, 1), on(current, to, bytes, 1), bytes, 1, 1});
}
Code cuMemcpyPeerAsync(Address to, Device *target, Address from, Device *source, size_t bytes, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {on(source, from, bytes, 1), on(target, to, bytes, 1), bytes, 1, 1});
}

struct Box {
    size_t x, y, z, level;
    unsigned kind;
    void *host;
    Address device;
    void *array;
    Device *context;
    size_t pitch, height;
};
struct BoxCopy {
    Box from, to;
    size_t width, rows, slices;
};
static End end_of(const Box &box, Device *device) {
    return box.kind == 1 ? host(box.host, box.pitch, box.height) : on(device, box.device, box.pitch, box.height);
}
Code cuMemcpy3DAsync_v2(const BoxCopy *box, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {end_of(box->from, current), end_of(box->to, current), box->width, box->rows, box->slices});
}
Code cuMemcpy3DPeerAsync(const BoxCopy *box, Stream *stream) {
    IN_CONTEXT;
    return copy(current, stream, {end_of(box->from, box->from.context), end_of(box->to, box->to.context), box->width, box->rows,
                         box->slices});
}

Code cuModuleLoadData(Module **module, const void *image) {
    IN_CONTEXT;
    const ImageHead *head = head_of(image);
    if (!head) return INVALID_IMAGE;
    // According to the manual, PTX requires a driver that is not older than the compiler; code requires a driver of the
    // same major version and the right architecture.
    if (head->is_text && head->toolkit > driver()) return UNSUPPORTED_PTX;
    if (!head->is_text && head->toolkit / 1000 > driver() / 1000) return INVALID_IMAGE;
    if (!head->is_text && setting("STANDIN_REFUSE_CODE", 0)) return NO_BINARY;
    if (!head->is_text && (head->architecture / 10 != capability() / 10 || head->architecture > capability())) return NO_BINARY;
    return load(image, module);
}
Code cuModuleUnload(Module *module) { CALLED; return unload(module); }
Code cuModuleGetFunction(Function **found, Module *module, const char *name) { IN_CONTEXT; return function(module, name, found); }
Code cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned in_x, unsigned in_y, unsigned in_z, unsigned shared,
                    Stream *stream, void **arguments, void **) {
    IN_CONTEXT;
    if (stream->device != current) return INVALID_HANDLE;
    if (shared > function->allowed_bytes) return INVALID_VALUE;
    count_shape(shared, nullptr, false);
    unsigned grid[3] = {x, y, z}, block[3] = {in_x, in_y, in_z};
    return launch(stream, function, grid, block, arguments);
}

Code cuFuncSetAttribute(Function *function, int attribute, int value) {
    IN_CONTEXT;
    if (attribute != 8 || value > 227 << 10) return INVALID_VALUE;
    function->allowed_bytes = value;
    return SUCCESS;
}
struct LaunchAttribute { unsigned id, unused, value[16]; };
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    Stream *stream;
    LaunchAttribute *attributes;
    unsigned number;
};
Code cuLaunchKernelEx(const LaunchConfig *config, Function *function, void **arguments, void **) {
    IN_CONTEXT;
    if (config->stream->device != current) return INVALID_HANDLE;
    if (config->shared > function->allowed_bytes) return INVALID_VALUE;
    for (unsigned n = 0; n < config->number; n++) {
        const LaunchAttribute &attribute = config->attributes[n];
        bool is_cluster = attribute.id == 4, is_cooperative = attribute.id == 2 && attribute.value[0] == 1;
        if (!is_cluster && !is_cooperative) return INVALID_VALUE;
        for (int d = 0; is_cluster && d < 3; d++)
            if (config->grid[d] % attribute.value[d]) return 912; // the manual requires whole clusters
        count_shape(0, is_cluster ? attribute.value : nullptr, is_cooperative);
    }
    count_shape(config->shared, nullptr, false);
    return launch(config->stream, function, config->grid, config->block, arguments);
}

struct KernelNode {
    Function *function;
    unsigned grid[3], block[3], shared;
    void **arguments, **others, *kernel, *context;
};
Code cuGraphCreate(Graph **graph, unsigned) { IN_CONTEXT; return create(graph); }
Code cuGraphAddKernelNode_v2(Node **node, Graph *graph, Node *const *before, size_t number, const KernelNode *kernel) {
    IN_CONTEXT;
    return add(graph, before, number, kernel->function, kernel->grid, kernel->block, kernel->arguments, node);
}
Code cuGraphConditionalHandleCreate(uint64_t *handle, Graph *graph, Device *context, unsigned value, unsigned flags) {
    IN_CONTEXT;
    if (driver() < 12040 || context != current || flags > 1) return INVALID_VALUE;
    return create_condition(graph, flags ? value : 0, handle);
}
struct ConditionalNode {
    int kind, reserved[3];
    uint64_t handle;
    unsigned type, size;
    Graph **graphs;
    Device *context;
    long long rest[26];
};
Code cuGraphAddNode(Node **node, Graph *graph, Node *const *, size_t number, ConditionalNode *described) {
    IN_CONTEXT;
    if (described->kind != 13 || described->type != 1 || described->size != 1 || number) return INVALID_VALUE;
    if (described->context != current) return INVALID_CONTEXT;
    static thread_local Graph *iteration; // the manual does not say where the array is
    Code code = add_loop(graph, described->handle, &iteration);
    if (code == SUCCESS) described->graphs = &iteration, *node = nullptr;
    return code;
}
Code cuGraphInstantiateWithFlags(Instance **instance, Graph *graph, unsigned long long) { IN_CONTEXT; return instantiate(graph, instance); }
Code cuGraphExecKernelNodeSetParams_v2(Instance *instance, Node *node, const KernelNode *kernel) {
    IN_CONTEXT;
    return set(instance, node, kernel->function, kernel->grid, kernel->block, kernel->arguments);
}
Code cuGraphLaunch(Instance *instance, Stream *stream) {
    IN_CONTEXT;
    return stream->device == current ? launch(stream, instance) : (Code)INVALID_HANDLE;
}
Code cuGraphExecDestroy(Instance *instance) { CALLED; return destroy(instance); }
Code cuGraphDestroy(Graph *graph) { CALLED; return destroy(graph); }

// NVRTC: the image contains the target architecture.
struct NvrtcUnit : Unit {
    int architecture = 0;
    std::string code(bool is_text) { return image_of(object, is_text, architecture, compiler()); }
};
static const int KNOWN[] = {75, 80, 86, 90};

Code nvrtcVersion(int *major, int *minor) { if (!compiler()) return 1; *major = compiler() / 1000, *minor = compiler() % 1000 / 10; return 0; }
Code nvrtcGetNumSupportedArchs(int *number) { *number = 4; return 0; }
Code nvrtcGetSupportedArchs(int *numbers) { memcpy(numbers, KNOWN, sizeof KNOWN); return 0; }
const char *nvrtcGetErrorString(Code) { return "the stand-in's NVRTC refuses"; }
Code nvrtcCreateProgram(NvrtcUnit **unit, const char *source, const char *name, int, const char *const *, const char *const *) {
    *unit = new NvrtcUnit;
    (*unit)->source = source, (*unit)->name = name;
    return 0;
}
Code nvrtcDestroyProgram(NvrtcUnit **unit) { delete *unit; *unit = nullptr; return 0; }
Code nvrtcCompileProgram(NvrtcUnit *unit, int number, const char *const *options) {
    std::vector<std::string> all(options, options + number);
    for (auto &option : all)
        if (size_t at = option.find("_"); option.rfind("--gpu-architecture=", 0) == 0) unit->architecture = atoi(&option[at + 1]);
    return unit->compile(all, true) ? 0 : 6;
}
Code nvrtcGetProgramLogSize(Unit *unit, size_t *bytes) { *bytes = unit->log.size() + 1; return 0; }
Code nvrtcGetProgramLog(Unit *unit, char *to) { strcpy(to, unit->log.c_str()); return 0; }
Code nvrtcGetCUBINSize(NvrtcUnit *unit, size_t *bytes) { *bytes = unit->code(false).size(); return 0; }
Code nvrtcGetPTXSize(NvrtcUnit *unit, size_t *bytes) { *bytes = unit->code(true).size(); return 0; }
Code nvrtcGetCUBIN(NvrtcUnit *unit, char *to) { auto code = unit->code(false); memcpy(to, code.data(), code.size()); return 0; }
Code nvrtcGetPTX(NvrtcUnit *unit, char *to) { auto code = unit->code(true); memcpy(to, code.data(), code.size()); return 0; }

} // extern "C"
