// Stand-in drivers: libraries with the entry points of CUDA, NVRTC, HIP and hipRTC that the runtime's tests load
// instead of the vendors' libraries, on a machine that has no GPU. Only tests load them; the runtime does not know
// about them.
//
// This is the common, interface-independent core: devices, their memory, streams, events, page locks, copies and
// kernels. `cuda.cpp` and `hip.cpp` are thin wrappers around it. They are as strict and as slow as the manuals allow:
// - Enqueued operations are executed later, on one thread per stream, after delays drawn from a seed.
// - Device memory is filled with invalid values when it is allocated, and cannot be accessed once it is freed, even
//   while an operation in flight still uses it. The end of each block is followed by a page that cannot be accessed.
// - A copy to or from host memory that is not page-locked blocks the calling thread until the stream has executed the
//   copy. Partially page-locked memory is refused, and so are addresses of another device, except in peer-copy calls.
// - Errors persist: after an error on a device, every call on this device returns the error, and enqueued operations
//   are not executed.
// - Unified memory is filled and guarded in the same way. The host and all devices use it in place, and it does not
//   count against any device's memory.
// - Devices have little memory, may lack access to each other, and are lost when a setting says so.
// - A graph may consist of a loop (a conditional node of CUDA), which is repeated as long as a kernel says so.
// - Kernels of a graph run in any order that its edges allow, drawn from the seed. A graph in flight must be neither
//   changed nor destroyed; the manuals allow both, but vendors' libraries have had bugs in these cases.
// - Kernels are executed: the dialect's text is compiled for the host (`kernels.cpp`, `host.h`).
//
// The stand-in drivers cannot show the concurrency of the hardware, its memory model, or real times, nor where the
// vendors' libraries differ from their manuals.
//
// Environment variables, all optional:
// - STANDIN_DEVICES: number of devices (1).
// - STANDIN_MEMORY: bytes of memory of each device (256 MiB).
// - STANDIN_HOLDS: bytes that can be allocated on each device (all).
// - STANDIN_REFUSE: index of an allocation that is refused (none).
// - STANDIN_MANAGED: whether there is unified memory (1).
// - STANDIN_CONCURRENT: whether the host may use unified memory while devices do (1).
// - STANDIN_REFUSE_MANAGED: index of the first allocation of unified memory that is refused, as are all later ones
//   (none).
// - STANDIN_POOLS: whether there are pools of memory (1).
// - STANDIN_SEED: seed of all random choices (1).
// - STANDIN_DELAY_US: longest delay in microseconds (50).
// - STANDIN_GATHER: how many kernels must be in flight on a device at once before it executes the first. If they do not
//   come, the device waits for ten seconds (0).
// - STANDIN_COPY_LAUNCHES: how many kernels must be launched on a device after a copy of at least 512 KiB from or to the
//   host was enqueued before the device executes it. If they do not come in ten seconds, a rule is broken (0).
// - STANDIN_LOCK_LAUNCHES: how many kernels must be launched while existing host memory is being page-locked (0).
// - STANDIN_HOST_HOLDS: bytes of page-locked memory that can be allocated (all).
// - STANDIN_CLOCK_PPM: how much faster the devices' clocks are than the host's, in millionths (0).
// - STANDIN_PEERS: whether devices have access to each other (1).
// - STANDIN_LOSE: `device:n` causes the loss of the device at its n-th operation (none).
// - STANDIN_REPORT: a file that is written when the process ends. It has a line `name count` for each called function
//   and each kind of leaked object, and a line `broken rule ...` for each broken rule (no file).
//
// Test programs may call `standin_count`, which returns a count, and `standin_phase(name)`, after which each count is
// also kept under `name: ...`.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace standin {

// The error codes used here have the same values in both interfaces.
using Code = int;
enum : Code {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    NO_BINARY = 209, UNSUPPORTED_PTX = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, PEER_ALREADY_ENABLED = 704, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
    LAUNCH_FAILURE = 719,
};

/// Returns the number in an environment variable, or `otherwise` if it is unset or empty.
long setting(const char *name, long otherwise);

/// Adds to a count. `live ...` counts objects that were created and not destroyed.
void count(const std::string &what, long by = 1);
/// Raises a count to at least this value.
void at_least(const std::string &what, long value);
/// Reports a broken rule for which there is no return code.
void broken(const std::string &rule);

/// An entry of the list that lets devices reach a pool's memory.
struct PoolAccess { unsigned location; int device; unsigned flags; };

struct Device {
    int number = 0;
    std::atomic<Code> stuck{SUCCESS};
    std::mutex lock;
    std::map<uintptr_t, size_t> blocks;
    size_t used = 0, capacity = 0, holds = 0;
    long allocations = 0;
    std::set<Device *> peers;
    std::set<uintptr_t> pooled; // blocks from the pool
    std::atomic<long> executed{0};
    long lost_at = -1;
    // Kernels that were launched one by one and have not ended, and whether enough of them were there at once.
    std::mutex kernels;
    std::condition_variable more;
    long in_flight = 0, launches = 0;
    bool gathered = false;
    struct Stream *usual = nullptr;

    Code allocate(size_t bytes, void **address);
    Code release(void *address);
    /// Allocates from the pool, which keeps all memory if `keeps` is set.
    Code allocate_pooled(size_t bytes, void **address);
    Code release_pooled(void *address);
    Code set_pool(int attribute, const uint64_t *value);
    /// Lets devices reach the pool's memory. `at` finds a device by its number.
    Code share_pool(const PoolAccess *list, size_t number, Device *(*at)(int));
    std::atomic<bool> keeps{false};
    bool owns(uintptr_t first, size_t bytes);
    /// Makes every operation on the device fail from now on.
    void fail(Code code);
    /// Notes the launch of a kernel.
    void launched();
    /// Waits until kernels have been launched this many times in all.
    void wait_for_launches(long times, const char *meanwhile);
    /// Waits until the device may execute kernels.
    void gather();
    /// Notes the end of a kernel.
    void ended();
};

/// Whether an access to unmapped memory ends the process, as in AMD's runtime.
extern std::atomic<bool> fault_ends_process;

/// Returns the devices. They are created by the first call and never destroyed.
std::vector<Device *> &devices();
/// Returns the device whose memory contains this address, if any.
Device *owner_of(uintptr_t address);
/// Returns the device that allocated this address, including unified memory.
Device *allocator_of(uintptr_t address);

struct Stream;
/// Allocates unified memory for a thread whose current device is `current`.
Code allocate_managed(Device *current, void **address, size_t bytes);
/// Frees device memory or unified memory.
Code release(Device *current, void *address);
/// Moves unified memory to a device, or to the host if `to` is null.
Code prefetch(Device *current, Stream *stream, uintptr_t first, size_t bytes, Device *to);

Code page_lock(void *first, size_t bytes);
/// Page-locks memory that the driver has not allocated.
Code page_lock_existing(Device *current, void *first, size_t bytes);
Code page_unlock(void *first);
/// Finds the page-locked range that contains an address. Returns whether there is one.
bool locked_range(uintptr_t address, uintptr_t *first, size_t *bytes);
/// Allocates page-locked memory.
Code allocate_host(void **address, size_t bytes);
Code free_host(void *address);

/// An event that can be recorded repeatedly. A wait covers the last recording before the wait.
struct Event {
    Device *device;
    bool is_timed;
    std::mutex lock;
    std::condition_variable changed;
    long recorded = 0, come = 0;
    double come_ms = 0; // on the device's clock

    explicit Event(Device *on, bool is_timed = false) : device(on), is_timed(is_timed) {}
    bool has_come(long which);
    void wait_for(long which);
    long last();
};
using EventHandle = std::shared_ptr<Event>;

struct Stream {
    Device *device;
    int number;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    bool ends = false;
    uint64_t random;

    static Stream *create(Device *device);
    static void destroy(Stream *stream);
    /// Returns `stream`, or the device's default stream if it is null, which always exists.
    static Stream *named(Stream *stream, Device *device);
    /// Returns whether the stream exists, that is, was created and not destroyed.
    static bool is_there(Stream *stream);
    /// Enqueues an operation that is executed unless the device has failed.
    void push(std::function<void()> operation);
    /// Enqueues an operation that is executed even if the device has failed.
    void push_always(std::function<void()> operation);

  private:
    void serve();
    void delay();
};

void record(Stream *stream, const EventHandle &event);
/// Returns the time between two events in milliseconds.
Code elapsed(float *ms, const EventHandle &from, const EventHandle &to);
/// Waits for all enqueued operations.
Code synchronize(Stream *stream);
void wait(Stream *stream, const EventHandle &event);

/// One end of a copy: rows of `pitch` bytes, slices of `height` rows.
struct End {
    char *first;
    size_t pitch, height;
    bool is_host;
    Device *device; // null for host memory
};
struct Copy {
    End from, to;
    size_t width, rows, slices;
};
/// Makes a copy for a thread whose current device is `current`.
Code copy(Device *current, Stream *stream, const Copy &copy);

/// A compiled program, which is a shared object for the host.
struct Module {
    void *object;
    std::string file;
};
struct Function {
    std::string name;
    unsigned (*pack)(void **arguments, unsigned char *packed);
    void (*call)(const unsigned char *packed);
    void *(*place)();
    std::atomic<unsigned> allowed_bytes{48 << 10}; // dynamic shared memory
};
/// Counts what a launch requests besides its size.
void count_shape(unsigned shared_bytes, const unsigned cluster[3], bool is_cooperative);
Code launch(Stream *stream, const Function *function, const unsigned grid[3], const unsigned block[3], void **arguments);
/// A kernel in a graph, with its arguments.
struct Node {
    size_t number;
    const Function *function;
    std::array<unsigned, 3> grid, block;
    std::vector<unsigned char> packed;
    std::vector<size_t> before;
};
struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::unique_ptr<Graph> iteration; // of a loop, which is then the only node
    uint64_t condition = 0;
    unsigned at_first = 0;
};
/// A graph that can be launched.
struct Instance {
    std::vector<Node> nodes;
    uint64_t condition = 0; // if not 0, the nodes are repeated as long as its value is not 0
    unsigned at_first = 0;
    std::shared_ptr<std::atomic<int>> in_flight = std::make_shared<std::atomic<int>>(0);
};
Code create(Graph **graph);
Code destroy(Graph *graph);
Code add(Graph *graph, Node *const *before, size_t number, const Function *function, const unsigned grid[3],
         const unsigned block[3], void **arguments, Node **node);
/// Creates a condition with this value at each launch.
Code create_condition(Graph *graph, unsigned value, uint64_t *handle);
/// Adds a loop, and returns the graph of its iteration.
Code add_loop(Graph *graph, uint64_t handle, Graph **iteration);
Code instantiate(Graph *graph, Instance **instance);
Code set(Instance *instance, const Node *node, const Function *function, const unsigned grid[3], const unsigned block[3],
         void **arguments);
Code launch(Stream *stream, Instance *instance);
Code destroy(Instance *instance);
/// Calls an operation. Returns whether the operation has accessed inaccessible memory.
bool faults(const std::function<void()> &operation);

/// A program of NVRTC or hipRTC: its text is compiled for the host.
struct Unit {
    std::string source, name, log, object;
    /// Compiles the text. Source locations in the log have the form `file:line:column`, or `file(line)` on request.
    bool compile(const std::vector<std::string> &options, bool places_in_brackets);
};
/// The head of an image, which precedes the object: the length, and the properties that the driver checks.
struct ImageHead {
    char magic[8];
    uint64_t bytes;
    int is_text, architecture, toolkit, unused;
};
std::string image_of(const std::string &object, bool is_text, int architecture, int toolkit);
/// Returns the head of an image, or null if the image has no head.
const ImageHead *head_of(const void *image);
Code load(const void *image, Module **module);
Code unload(Module *module);
Code function(Module *module, const char *name, Function **function);

} // namespace standin

/// Counts a call of an entry point.
#define CALLED standin::count(__func__)
