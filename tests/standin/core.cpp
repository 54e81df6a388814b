// Devices, memory, page locks, streams, events and copies: see core.hpp.
#include "core.hpp"
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace standin {

long setting(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value && *value ? atol(value) : otherwise;
}

// The counts are never destroyed, because stream threads outlive `main`.
struct Ledger {
    std::mutex lock;
    std::map<std::string, long> counts;
    std::vector<std::string> broken;
    std::string phase;
};
static void report();
static Ledger &ledger() {
    static Ledger *one = [] {
        atexit(report);
        return new Ledger;
    }();
    return *one;
}

void count(const std::string &what, long by) {
    std::lock_guard guard(ledger().lock);
    ledger().counts[what] += by;
    if (!ledger().phase.empty()) ledger().counts[ledger().phase + what] += by;
}

extern "C" void standin_phase(const char *name) {
    std::lock_guard guard(ledger().lock);
    ledger().phase = std::string(name) + ": ";
}

extern "C" long standin_count(const char *what) {
    std::lock_guard guard(ledger().lock);
    return ledger().counts[what];
}

void at_least(const std::string &what, long value) {
    std::lock_guard guard(ledger().lock);
    long &count = ledger().counts[what];
    count = std::max(count, value);
}

void broken(const std::string &rule) {
    fprintf(stderr, "stand-in driver: %s\n", rule.c_str());
    std::lock_guard guard(ledger().lock);
    ledger().broken.push_back(rule);
}

static void report() {
    const char *path = getenv("STANDIN_REPORT");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    std::lock_guard guard(ledger().lock);
    for (auto &[what, number] : ledger().counts) fprintf(file, "%s %ld\n", what.c_str(), number);
    for (auto &rule : ledger().broken) fprintf(file, "broken rule %s\n", rule.c_str());
    fclose(file);
}

std::atomic<bool> fault_ends_process{false};

std::vector<Device *> &devices() {
    static auto *all = [] {
        auto *made = new std::vector<Device *>;
        int lost = -1;
        long at = -1;
        if (const char *lose = getenv("STANDIN_LOSE")) sscanf(lose, "%d:%ld", &lost, &at);
        for (int n = 0; n < setting("STANDIN_DEVICES", 1); n++) {
            auto *device = new Device;
            device->number = n;
            device->capacity = setting("STANDIN_MEMORY", 256 << 20);
            device->holds = setting("STANDIN_HOLDS", device->capacity);
            device->lost_at = n == lost ? at : -1;
            made->push_back(device);
        }
        return made;
    }();
    return *all;
}

static size_t up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
constexpr size_t PAGE = 4096, ALIGNMENT = 512;

Code Device::allocate(size_t bytes, void **address) {
    std::lock_guard guard(lock);
    if (bytes == 0) return INVALID_VALUE;
    static const long refused = setting("STANDIN_REFUSE", -1);
    if (allocations++ == refused || bytes > holds || used + bytes > holds) {
        count("refused allocations");
        return OUT_OF_MEMORY;
    }
    size_t pages = up(bytes, PAGE);
    char *mapped = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(mapped + pages, PAGE, PROT_NONE);
    memset(mapped, 0xff, pages); // NaN, or -1 as an integer
    char *first = mapped + pages - up(bytes, ALIGNMENT);
    blocks[(uintptr_t)first] = bytes;
    used += bytes;
    count("live bytes", bytes);
    count("live blocks");
    *address = first;
    return SUCCESS;
}

Code Device::release(void *address) {
    std::lock_guard guard(lock);
    auto found = blocks.find((uintptr_t)address);
    if (found == blocks.end() || pooled.count((uintptr_t)address)) return INVALID_VALUE;
    uintptr_t mapped = found->first / PAGE * PAGE;
    // The addresses are never reused, so that every later access faults.
    size_t pages = up(found->first + found->second - mapped, PAGE);
    madvise((void *)mapped, pages, MADV_DONTNEED);
    mprotect((void *)mapped, pages, PROT_NONE);
    used -= found->second;
    count("live bytes", -(long)found->second);
    count("live blocks", -1);
    blocks.erase(found);
    return SUCCESS;
}

Code Device::allocate_pooled(size_t bytes, void **address) {
    if (!keeps) broken("a pool gives its memory back at each synchronization");
    Code code = allocate(bytes, address);
    std::lock_guard guard(lock);
    if (code == SUCCESS) pooled.insert((uintptr_t)*address);
    return code;
}

// The memory is unmapped at once, which is stricter than the manual: the runtime frees memory that nothing uses.
Code Device::release_pooled(void *address) {
    std::unique_lock guard(lock);
    if (!pooled.erase((uintptr_t)address)) return INVALID_VALUE;
    guard.unlock();
    return release(address);
}

Code Device::set_pool(int attribute, const uint64_t *value) {
    if (attribute != 4) return INVALID_VALUE; // the release threshold
    keeps = *value == UINT64_MAX;
    return SUCCESS;
}

Code Device::share_pool(const PoolAccess *list, size_t number, Device *(*at)(int)) {
    for (size_t n = 0; n < number; n++) {
        Device *device = at(list[n].device);
        if (list[n].location != 1 || list[n].flags != 3 || device == this) return INVALID_VALUE;
        std::lock_guard guard(device->lock);
        device->peers.insert(this);
    }
    return SUCCESS;
}

bool Device::owns(uintptr_t first, size_t bytes) {
    std::lock_guard guard(lock);
    auto behind = blocks.upper_bound(first);
    if (behind == blocks.begin()) return false;
    auto &[base, size] = *std::prev(behind);
    return first + bytes <= base + size;
}

void Device::fail(Code code) {
    Code none = SUCCESS;
    if (stuck.compare_exchange_strong(none, code)) count("devices lost");
}

void Device::launched() {
    static const long enough = setting("STANDIN_GATHER", 0);
    std::lock_guard guard(kernels);
    at_least("most kernels in flight", ++in_flight);
    launches++;
    gathered |= in_flight >= enough;
    more.notify_all();
}

void Device::wait_for_launches(long times, const char *meanwhile) {
    std::unique_lock guard(kernels);
    if (!more.wait_for(guard, std::chrono::seconds(10), [=] { return launches >= times || stuck; }))
        broken(std::string("no kernel is launched during ") + meanwhile);
}

void Device::gather() {
    std::unique_lock guard(kernels);
    if (!gathered) more.wait_for(guard, std::chrono::seconds(10), [this] { return gathered; });
    gathered = true;
}

void Device::ended() {
    std::lock_guard guard(kernels);
    in_flight--;
}

// Unified memory: for each block the address of its first byte, the length, and the device that allocated it.
struct Managed {
    struct Block {
        size_t bytes;
        Device *device;
        int prefetches = 0;
    };
    std::mutex lock;
    std::map<uintptr_t, Block> blocks;
    long allocations = 0;

    /// Returns the block that contains these bytes, or null. The caller must hold the lock.
    Block *find(uintptr_t first, size_t bytes) {
        auto behind = blocks.upper_bound(first);
        if (behind == blocks.begin()) return nullptr;
        auto &[base, block] = *std::prev(behind);
        return first + bytes <= base + block.bytes ? &block : nullptr;
    }
};
static Managed &managed() {
    static auto *one = new Managed;
    return *one;
}
static bool is_managed(uintptr_t first, size_t bytes) {
    std::lock_guard guard(managed().lock);
    return managed().find(first, bytes);
}

Code allocate_managed(Device *current, void **address, size_t bytes) {
    std::lock_guard guard(managed().lock);
    if (bytes == 0 || !setting("STANDIN_MANAGED", 1)) return INVALID_VALUE;
    static const long refused = setting("STANDIN_REFUSE_MANAGED", -1);
    if (refused >= 0 && managed().allocations++ >= refused) return OUT_OF_MEMORY;
    size_t pages = up(bytes, PAGE);
    char *mapped = (char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(mapped + pages, PAGE, PROT_NONE);
    memset(mapped, 0xff, pages);
    managed().blocks[(uintptr_t)mapped] = {bytes, current};
    count("live unified blocks");
    count("unified bytes", bytes);
    *address = mapped;
    return SUCCESS;
}

Code release(Device *current, void *address) {
    {
        std::lock_guard guard(managed().lock);
        auto found = managed().blocks.find((uintptr_t)address);
        if (found != managed().blocks.end()) {
            if (found->second.prefetches) broken("unified memory was freed under a prefetch");
            // After this, every access by the host or a kernel faults.
            mprotect(address, up(found->second.bytes, PAGE), PROT_NONE);
            managed().blocks.erase(found);
            count("live unified blocks", -1);
            return SUCCESS;
        }
    }
    return current->release(address);
}

Code prefetch(Device *current, Stream *stream, uintptr_t first, size_t bytes, Device *to) {
    if (stream->device != current) return INVALID_HANDLE;
    {
        std::lock_guard guard(managed().lock);
        Managed::Block *block = bytes ? managed().find(first, bytes) : nullptr;
        if (!block) return INVALID_VALUE;
        block->prefetches++;
    }
    count(to ? "prefetches to devices" : "prefetches to the host");
    // The prefetch ends even if the device has failed.
    stream->push([] {});
    stream->push_always([first] {
        std::lock_guard guard(managed().lock);
        if (Managed::Block *block = managed().find(first, 1)) block->prefetches--;
    });
    return SUCCESS;
}

Device *allocator_of(uintptr_t address) {
    std::unique_lock guard(managed().lock);
    if (Managed::Block *block = managed().find(address, 1)) return block->device;
    guard.unlock();
    return owner_of(address);
}

Device *owner_of(uintptr_t address) {
    for (Device *device : devices())
        if (device->owns(address, 1)) return device;
    return nullptr;
}

// Page-locked ranges: for each the address of the first byte and the length.
struct Locks {
    std::mutex lock;
    std::map<uintptr_t, size_t> ranges;
};
static Locks &locks() {
    static auto *one = new Locks;
    return *one;
}

Code page_lock(void *first, size_t bytes) {
    std::lock_guard guard(locks().lock);
    uintptr_t begin = (uintptr_t)first;
    if (!bytes) return INVALID_VALUE;
    for (auto &[other, size] : locks().ranges)
        if (begin < other + size && other < begin + bytes) return ALREADY_REGISTERED;
    locks().ranges[begin] = bytes;
    count("live page locks");
    count("page-locked bytes", bytes);
    return SUCCESS;
}

Code page_unlock(void *first) {
    std::lock_guard guard(locks().lock);
    if (!locks().ranges.erase((uintptr_t)first)) return NOT_REGISTERED;
    count("live page locks", -1);
    return SUCCESS;
}

Code page_lock_existing(Device *current, void *first, size_t bytes) {
    static const long wanted = setting("STANDIN_LOCK_LAUNCHES", 0);
    std::unique_lock guard(current->kernels);
    long launches = current->launches + wanted;
    guard.unlock();
    if (wanted) current->wait_for_launches(launches, "page-locking");
    Code code = page_lock(first, bytes);
    if (code == SUCCESS) count("locks of existing memory");
    return code;
}

bool locked_range(uintptr_t address, uintptr_t *first, size_t *bytes) {
    std::lock_guard guard(locks().lock);
    for (auto &[other, size] : locks().ranges)
        if (address >= other && address < other + size) return *first = other, *bytes = size, true;
    return false;
}

Code allocate_host(void **address, size_t bytes) {
    static const size_t holds = setting("STANDIN_HOST_HOLDS", LONG_MAX);
    static std::atomic<size_t> used{0};
    if (used + bytes > holds) return count("refused host allocations"), OUT_OF_MEMORY;
    used += bytes;
    *address = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*address, 0xff, bytes);
    count("staging bytes", bytes);
    return page_lock(*address, bytes);
}

Code free_host(void *address) {
    Code code = page_unlock(address);
    if (code == SUCCESS) free(address);
    return code;
}

enum class Locked { NO, IN_PART, YES };
static Locked is_locked(uintptr_t first, size_t bytes) {
    std::lock_guard guard(locks().lock);
    for (auto &[other, size] : locks().ranges) {
        if (first >= other && first + bytes <= other + size) return Locked::YES;
        if (first < other + size && other < first + bytes) return Locked::IN_PART;
    }
    return Locked::NO;
}

bool Event::has_come(long which) {
    std::lock_guard guard(lock);
    return come >= which;
}
long Event::last() {
    std::lock_guard guard(lock);
    return recorded;
}
void Event::wait_for(long which) {
    std::unique_lock guard(lock);
    // A failing device sends no notification, so poll.
    while (come < which && !device->stuck) changed.wait_for(guard, std::chrono::milliseconds(1));
}

// All streams that currently exist.
struct Streams {
    std::mutex lock;
    std::set<Stream *> all;
};
static Streams &streams() {
    static auto *one = new Streams;
    return *one;
}

bool Stream::is_there(Stream *stream) {
    std::lock_guard guard(streams().lock);
    return streams().all.count(stream);
}

Stream *Stream::create(Device *device) {
    static std::atomic<int> made{0};
    auto *stream = new Stream;
    stream->device = device;
    stream->number = made++;
    stream->random = (setting("STANDIN_SEED", 1) + 1) * 0x9e3779b97f4a7c15u + stream->number;
    count("live streams");
    {
        std::lock_guard guard(streams().lock);
        streams().all.insert(stream);
    }
    std::thread([stream] { stream->serve(); }).detach();
    return stream;
}

Stream *Stream::named(Stream *stream, Device *device) {
    if (stream) return stream;
    std::lock_guard guard(streams().lock);
    if (!device->usual) {
        device->usual = new Stream;
        device->usual->device = device;
        device->usual->number = -1;
        device->usual->random = (setting("STANDIN_SEED", 1) + 1) * 0x9e3779b97f4a7c15u - 1;
        std::thread([stream = device->usual] { stream->serve(); }).detach();
    }
    return device->usual;
}

void Stream::destroy(Stream *stream) {
    count("live streams", -1);
    {
        std::lock_guard guard(streams().lock);
        streams().all.erase(stream);
    }
    std::lock_guard guard(stream->lock);
    stream->ends = true;
    stream->changed.notify_one();
}

void Stream::delay() {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    static const long longest = setting("STANDIN_DELAY_US", 50);
    if (!longest || random % 8 > 2) return;
    if (random % 8 > 0) return (void)sched_yield();
    timespec time{0, long(random / 8 % (longest * 1000))};
    nanosleep(&time, nullptr);
}

void Stream::serve() {
    for (;;) {
        std::unique_lock guard(lock);
        changed.wait(guard, [this] { return ends || !queue.empty(); });
        if (queue.empty()) {
            guard.unlock();
            break;
        }
        auto operation = std::move(queue.front());
        queue.pop_front();
        guard.unlock();
        operation();
    }
    delete this;
}

void Stream::push_always(std::function<void()> operation) {
    std::lock_guard guard(lock);
    queue.push_back(std::move(operation));
    changed.notify_one();
}

void Stream::push(std::function<void()> operation) {
    push_always([this, operation = std::move(operation)] {
        if (device->stuck) return;
        delay();
        if (device->executed++ == device->lost_at) return device->fail(LAUNCH_FAILURE);
        if (!faults(operation)) return;
        if (fault_ends_process) {
            fprintf(stderr, "Memory access fault on device %d\n", device->number);
            abort();
        }
        device->fail(ILLEGAL_ADDRESS);
    });
}

static double device_clock_ms() {
    static const double rate = 1 + setting("STANDIN_CLOCK_PPM", 0) * 1e-6;
    std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now().time_since_epoch();
    return since.count() * rate;
}

void record(Stream *stream, const EventHandle &event) {
    std::unique_lock guard(event->lock);
    long which = ++event->recorded;
    guard.unlock();
    stream->push_always([event, which] {
        std::lock_guard guard(event->lock);
        event->come = std::max(event->come, which);
        event->come_ms = device_clock_ms();
        event->changed.notify_all();
    });
}

Code elapsed(float *ms, const EventHandle &from, const EventHandle &to) {
    double times[2];
    for (auto *event : {&from, &to}) {
        if (!(*event)->is_timed) return INVALID_HANDLE;
        std::lock_guard guard((*event)->lock);
        if (!(*event)->recorded) return INVALID_HANDLE;
        if ((*event)->come < (*event)->recorded) return NOT_READY;
        times[event == &to] = (*event)->come_ms;
    }
    if (times[1] < times[0]) broken("the time between two events was requested backwards");
    *ms = (float)(times[1] - times[0]);
    return SUCCESS;
}

Code synchronize(Stream *stream) {
    auto all = std::make_shared<Event>(stream->device);
    record(stream, all);
    all->wait_for(1);
    return stream->device->stuck;
}

void wait(Stream *stream, const EventHandle &event) {
    long which = event->last();
    if (event->has_come(which)) count("waits for what has come");
    stream->push_always([event, which, device = stream->device] {
        if (!device->stuck) event->wait_for(which);
    });
}

static size_t span(const Copy &copy, const End &end) {
    return ((copy.slices - 1) * end.height + copy.rows - 1) * end.pitch + copy.width;
}

static void transfer(const Copy &copy) {
    auto at = [](const End &end, size_t slice, size_t row) { return end.first + (slice * end.height + row) * end.pitch; };
    for (size_t slice = 0; slice < copy.slices; slice++)
        for (size_t row = 0; row < copy.rows; row++)
            memcpy(at(copy.to, slice, row), at(copy.from, slice, row), copy.width);
}

Code copy(Device *current, Stream *stream, const Copy &copy) {
    stream = Stream::named(stream, current);
    if (!copy.width || !copy.rows || !copy.slices) return SUCCESS;
    if (stream->device != current) return INVALID_HANDLE;
    bool is_box = copy.rows > 1 || copy.slices > 1, blocks = false;
    std::vector<std::pair<uintptr_t, size_t>> locked;
    for (const End *end : {&copy.from, &copy.to}) {
        uintptr_t first = (uintptr_t)end->first;
        if (is_box && (end->pitch < copy.width || end->height < copy.rows)) return INVALID_VALUE;
        if (!end->is_host) {
            size_t bytes = span(copy, *end);
            if (!end->device->owns(first, bytes) && !is_managed(first, bytes)) return INVALID_VALUE;
            continue;
        }
        switch (is_locked(first, span(copy, *end))) {
        case Locked::IN_PART: return INVALID_VALUE;
        case Locked::NO: blocks = true; break;
        case Locked::YES: locked.push_back({first, span(copy, *end)});
        }
    }
    count(copy.from.is_host ? "copies in" : copy.to.is_host ? "copies out" : "copies across");
    auto made = std::make_shared<Event>(stream->device);
    static const long wanted = setting("STANDIN_COPY_LAUNCHES", 0);
    long launches = 0;
    if (wanted && copy.from.is_host != copy.to.is_host && copy.width * copy.rows * copy.slices >= 512 << 10) {
        std::lock_guard guard(stream->device->kernels);
        launches = stream->device->launches + wanted;
    }
    stream->push([copy, locked, launches, device = stream->device] {
        if (launches) device->wait_for_launches(launches, "a copy");
        for (auto [first, bytes] : locked)
            if (is_locked(first, bytes) != Locked::YES) broken("host memory was unlocked under a copy");
        transfer(copy);
    });
    if (blocks) {
        count("blocking copies");
        record(stream, made);
        made->wait_for(1);
    }
    return stream->device->stuck;
}

} // namespace standin
