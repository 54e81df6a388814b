// Stand-in drivers: libraries with the entry points of CUDA, NVRTC, HIP and hipRTC that the runtime's tests load instead
// of the vendors', on a machine that has no GPU. Only tests load them; nothing of the library knows that they exist.
//
// This is the common core, which knows no interface: devices, their memory, streams, events, page locks, copies, kernels.
// `cuda.cpp` and `hip.cpp` are thin doors to it. They are as nasty as the manuals allow:
// - What is enqueued happens later, on a thread per stream, after delays drawn from a seed.
// - Memory of a device is poisoned when it is allocated, and can't be touched any more once it is freed, even where
//   something in flight still uses it. The next block begins behind a page that nobody may touch.
// - A copy from or to host memory that is not page-locked blocks the thread that asks for it until the stream has made it.
//   Memory that is page-locked in part is refused; so are device addresses of another device, without a call for peers.
// - Errors stick: after one on a device, every call there returns it, and what is enqueued does not happen.
// - Unified memory is poisoned and guarded alike; the host and all devices use it where it lies, and it takes none of a device's.
// - Devices have little memory, may have no access to each other, and get lost when they are told to.
// - Kernels of a graph happen in any order that its edges allow, drawn from the seed. A graph in flight is neither changed nor
//   destroyed; the manuals allow both, and libraries had trouble with them.
// - Kernels are executed: the dialect's text, compiled for the host (`kernels.cpp`, `host.h`).
//
// What it can't show: what hardware does at the same time, real memory models, real times, and what the vendors' libraries
// do otherwise than their manuals say.
//
// Environment, all optional: STANDIN_DEVICES (1), STANDIN_MEMORY bytes of each (256 MiB), STANDIN_SEED (1),
// STANDIN_HOLDS bytes that can be allocated (as many), STANDIN_REFUSE the number of an allocation that is refused (none),
// STANDIN_MANAGED whether there is unified memory (1), STANDIN_CONCURRENT whether the host may use it meanwhile (1),
// STANDIN_REFUSE_MANAGED the number of its first allocation that is refused (none),
// STANDIN_DELAY_US the longest delay (50), STANDIN_PEERS whether devices reach each other (1), STANDIN_LOSE `device:n`, to
// be lost at its n-th operation, STANDIN_REPORT a file that is written when the process ends: a line `name count` for each
// function that was called and for what is left, `broken rule ...` for each rule broken.
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

// Both interfaces have the same codes, as far as they are returned here.
using Code = int;
enum : Code {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    NO_BINARY = 209, UNSUPPORTED_PTX = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, PEER_ALREADY_ENABLED = 704, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
    LAUNCH_FAILURE = 719,
};

/// A number from the environment.
long setting(const char *name, long otherwise);

/// What is counted, by name. `live ...` is what was made and not destroyed.
void count(const std::string &what, long by = 1);
/// A rule that was broken where no code can say so.
void broken(const std::string &rule);

struct Device {
    int number = 0;
    std::atomic<Code> stuck{SUCCESS};
    std::mutex lock;
    std::map<uintptr_t, size_t> blocks;
    size_t used = 0, capacity = 0, holds = 0;
    long allocations = 0;
    std::set<Device *> peers;
    std::atomic<long> executed{0};
    long lost_at = -1;
    struct Stream *usual = nullptr;

    Code allocate(size_t bytes, void **address);
    Code release(void *address);
    bool owns(uintptr_t first, size_t bytes);
    /// Everything on it fails from now on.
    void fail(Code code);
};

/// Whether an access to memory that is not there ends the process, as it does with AMD's runtime.
extern std::atomic<bool> fault_ends_process;

/// The devices; made when first asked for, and never destroyed.
std::vector<Device *> &devices();
/// The device that has this address, or none.
Device *owner_of(uintptr_t address);
/// The device that it was allocated by, also where all use it.
Device *allocator_of(uintptr_t address);

struct Stream;
/// Unified memory, allocated by a thread whose device this is.
Code allocate_managed(Device *current, void **address, size_t bytes);
/// Device memory or unified memory.
Code release(Device *current, void *address);
/// To a device, or to the host if that is none.
Code prefetch(Device *current, Stream *stream, uintptr_t first, size_t bytes, Device *to);

Code page_lock(void *first, size_t bytes);
Code page_unlock(void *first);
/// Page-locked memory of the interface's own.
Code allocate_host(void **address, size_t bytes);
Code free_host(void *address);

/// A moment that is recorded again and again: what waits for it waits for the last time it was recorded before.
struct Event {
    Device *device;
    std::mutex lock;
    std::condition_variable changed;
    long recorded = 0, come = 0;

    explicit Event(Device *on) : device(on) {}
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
    /// The one that is meant where none is named; there from the beginning, and never destroyed.
    static Stream *named(Stream *stream, Device *device);
    /// Whether it was made and not destroyed.
    static bool is_there(Stream *stream);
    /// Enqueues an operation, which happens unless the device has failed.
    void push(std::function<void()> operation);
    /// Enqueues something that happens even then.
    void push_always(std::function<void()> operation);

  private:
    void serve();
    void delay();
};

void record(Stream *stream, const EventHandle &event);
/// Waits for all that was enqueued.
Code synchronize(Stream *stream);
void wait(Stream *stream, const EventHandle &event);

/// One end of a copy: rows of `pitch` bytes, slices of `height` rows.
struct End {
    char *first;
    size_t pitch, height;
    bool is_host;
    Device *device; // of a device's
};
struct Copy {
    End from, to;
    size_t width, rows, slices;
};
/// By a thread whose device this is.
Code copy(Device *current, Stream *stream, const Copy &copy);

/// A compiled program: a shared object of the host. `head` stands in front of it in an image.
struct Module {
    void *object;
    std::string file;
};
struct Function {
    std::string name;
    unsigned (*pack)(void **arguments, unsigned char *packed);
    void (*call)(const unsigned char *packed);
    void *(*place)();
};
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
};
/// A graph that can be launched.
struct Instance {
    std::vector<Node> nodes;
    std::shared_ptr<std::atomic<int>> in_flight = std::make_shared<std::atomic<int>>(0);
};
Code create(Graph **graph);
Code destroy(Graph *graph);
Code add(Graph *graph, Node *const *before, size_t number, const Function *function, const unsigned grid[3],
         const unsigned block[3], void **arguments, Node **node);
Code instantiate(Graph *graph, Instance **instance);
Code set(Instance *instance, const Node *node, const Function *function, const unsigned grid[3], const unsigned block[3],
         void **arguments);
Code launch(Stream *stream, Instance *instance);
Code destroy(Instance *instance);
/// Calls something that may touch memory that is not there; whether it did.
bool faults(const std::function<void()> &operation);

/// Where a compiler of one of the interfaces runs: a program's text, compiled for the host.
struct Unit {
    std::string source, name, log, object;
    /// Compiles. The log has places as `file:line:column` or, if asked for, `file(line)`.
    bool compile(const std::vector<std::string> &options, bool places_in_brackets);
};
/// The object as an image that says its own length, with what the driver is to know of it.
struct ImageHead {
    char magic[8];
    uint64_t bytes;
    int is_text, architecture, toolkit, unused;
};
std::string image_of(const std::string &object, bool is_text, int architecture, int toolkit);
/// The head of an image, or none.
const ImageHead *head_of(const void *image);
Code load(const void *image, Module **module);
Code unload(Module *module);
Code function(Module *module, const char *name, Function **function);

} // namespace standin

/// Counts a call of an entry point.
#define CALLED standin::count(__func__)
