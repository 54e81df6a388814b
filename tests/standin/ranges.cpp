// The entry points of NVTX 2, of a profiler for NVTX 3, and of rocTX. They count ranges by name, and check that each
// range ends on the thread on which it began.
#include "core.hpp"

namespace standin {

static thread_local std::vector<std::string> open_ranges;

/// Ends a thread's check: no range may be left open.
struct AtExit {
    ~AtExit() {
        if (!open_ranges.empty()) broken("a thread ends inside a range");
    }
};

static int push(const char *interface, const char *name) {
    static thread_local AtExit check;
    (void)&check;
    open_ranges.push_back(name);
    count(std::string("range of ") + interface + " " + name);
    return int(open_ranges.size()) - 1;
}

static int pop() {
    if (open_ranges.empty()) {
        broken("a range ends that has not begun");
        return -1;
    }
    open_ranges.pop_back();
    count("ended ranges");
    return int(open_ranges.size());
}

} // namespace standin

using namespace standin;

extern "C" {

int nvtxRangePushA(const char *name) { return push("NVTX 2", name); }
int nvtxRangePop() { return pop(); }
int roctxRangePushA(const char *name) { return push("rocTX", name); }
int roctxRangePop() { return pop(); }

static int injected_push(const char *name) { return push("NVTX 3", name); }

using Installed = void (*)();
struct Callbacks {
    size_t bytes;
    int (*function_table)(int module, Installed ***table, unsigned *size);
};
struct VersionInfo {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_profiler_version)(uint32_t);
};

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    auto version = static_cast<const VersionInfo *>(export_table(3));
    if (!version || version->bytes < sizeof *version || version->version < 2) return 0;
    version->set_profiler_version(3);
    auto callbacks = static_cast<const Callbacks *>(export_table(1));
    if (!callbacks || callbacks->bytes < sizeof *callbacks || export_table(77)) return 0;
    Installed **core = nullptr, **domains = nullptr, **none = nullptr;
    unsigned size = 0;
    if (callbacks->function_table(0, &none, &size) || callbacks->function_table(99, &none, &size)) return 0;
    if (!callbacks->function_table(5, &domains, &size) || size <= 15) return 0;
    // As profilers do, install more functions than the program calls.
    for (unsigned at = 1; at <= 15; at++) *domains[at] = reinterpret_cast<Installed>(&pop);
    if (!callbacks->function_table(1, &core, &size) || size <= 15) return 0;
    *core[9] = reinterpret_cast<Installed>(&injected_push);
    *core[11] = reinterpret_cast<Installed>(&pop);
    return 1;
}

} // extern "C"
