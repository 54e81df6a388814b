// Execution of kernels on the host: texts are compiled to shared objects, and a launch calls the kernel's function for
// each thread of each group.
//
// The threads of a group run in fibers, so that they can wait for each other at barriers. One fiber runs one thread
// after the other until a thread reaches a barrier; then another fiber continues with the remaining threads. A kernel
// without barriers is therefore a simple loop. The order of threads changes from group to group. If some threads do not
// reach a barrier, that is reported as a broken rule.
#include "core.hpp"
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

namespace standin {

// The same as in host.h.
struct Triple { unsigned x, y, z; };
struct Place {
    Triple thread, group, threads, groups;
    void (*barrier)(), (*set_condition)(unsigned long long handle, unsigned value);
};

namespace {

constexpr size_t STACK = 256 << 10;

struct Fiber {
    jmp_buf at;
    ucontext_t context;
    bool begun = false;
    unsigned thread = 0; // the thread that it runs
};

/// Runs groups, one after the other, on one system thread.
struct Runner {
    std::vector<Fiber *> idle, parked;
    Fiber *current = nullptr;
    jmp_buf home;
    const Function *function = nullptr;
    const unsigned char *arguments = nullptr;
    Place *place = nullptr;
    unsigned threads = 0, next = 0, turn = 0;

    void run_group();
    void resume(Fiber *fiber);
    void run_threads();
    void show(unsigned thread);
};

thread_local Runner *runner = nullptr;

void go_home() {
    Fiber *fiber = runner->current;
    if (!_setjmp(fiber->at)) _longjmp(runner->home, 1);
}

void barrier() {
    runner->parked.push_back(runner->current);
    go_home();
}

void begin() {
    for (;;) {
        runner->run_threads();
        runner->idle.push_back(runner->current);
        go_home();
    }
}

void Runner::show(unsigned thread) {
    Triple &n = place->threads;
    place->thread = {thread % n.x, thread / n.x % n.y, thread / n.x / n.y};
}

void Runner::run_threads() {
    while (next < threads) {
        unsigned n = next++;
        current->thread = turn % 2 ? threads - 1 - n : n;
        show(current->thread);
        function->call(arguments);
    }
}

void Runner::resume(Fiber *fiber) {
    current = fiber;
    if (_setjmp(home)) return;
    if (fiber->begun) _longjmp(fiber->at, 1);
    fiber->begun = true;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp =
        mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fiber->context.uc_stack.ss_size = STACK;
    makecontext(&fiber->context, begin, 0);
    setcontext(&fiber->context);
}

void Runner::run_group() {
    next = 0, turn++;
    while (next < threads) {
        if (idle.empty()) idle.push_back(new Fiber);
        Fiber *fiber = idle.back();
        idle.pop_back();
        resume(fiber);
    }
    while (!parked.empty()) {
        if (parked.size() != threads) broken(function->name + ": a barrier that not all threads come to");
        std::vector<Fiber *> round;
        round.swap(parked);
        for (Fiber *fiber : round) {
            show(fiber->thread);
            resume(fiber);
        }
    }
}

thread_local sigjmp_buf *rescue = nullptr;
struct sigaction before[2];

void on_fault(int signal, siginfo_t *info, void *context) {
    if (rescue) {
        // Kernels and copies call no functions, so the interrupted code cannot hold a lock that is needed here.
        char text[200];
        int bytes = snprintf(text, sizeof text, "stand-in driver: %s touches %p\n",
                             runner && runner->function ? runner->function->name.c_str() : "a copy", info->si_addr);
        if (write(2, text, bytes) < 0) _exit(1);
        siglongjmp(*rescue, 1);
    }
    auto &other = before[signal == SIGBUS];
    if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(signal, info, context);
    ::signal(signal, SIG_DFL);
}

} // namespace

bool faults(const std::function<void()> &operation) {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, &before[0]);
        sigaction(SIGBUS, &action, &before[1]);
    });
    sigjmp_buf here;
    if (sigsetjmp(here, 1)) {
        rescue = nullptr;
        runner = nullptr; // leaks the fibers
        return true;
    }
    rescue = &here;
    operation();
    rescue = nullptr;
    return false;
}

/// Packs the arguments of a kernel. Returns whether it can be launched.
static bool prepare(Node &node, const Function *function, const unsigned grid[3], const unsigned block[3], void **arguments) {
    unsigned threads = block[0] * block[1] * block[2];
    if (!threads || threads > 1024 || !grid[0] || !grid[1] || !grid[2]) return false;
    node.function = function, node.grid = {grid[0], grid[1], grid[2]}, node.block = {block[0], block[1], block[2]};
    alignas(16) unsigned char packed[4096];
    node.packed.assign(packed, packed + function->pack(arguments, packed));
    return true;
}

/// The values of all conditions.
struct Conditions {
    std::mutex lock;
    std::map<uint64_t, unsigned> values;
};
static Conditions &conditions() {
    static auto *all = new Conditions;
    return *all;
}

static void set_condition(unsigned long long handle, unsigned value) {
    std::lock_guard guard(conditions().lock);
    auto found = conditions().values.find(handle);
    if (found == conditions().values.end()) broken("a kernel set a condition that does not exist");
    else found->second = value;
}

static void execute(const Node &node) {
    if (!runner) runner = new Runner;
    auto *place = (Place *)node.function->place();
    Triple groups{node.grid[0], node.grid[1], node.grid[2]}, in{node.block[0], node.block[1], node.block[2]};
    *place = {{}, {}, in, groups, barrier, set_condition};
    runner->function = node.function, runner->arguments = node.packed.data(), runner->place = place;
    runner->threads = in.x * in.y * in.z;
    for (unsigned z = 0; z < groups.z; z++)
        for (unsigned y = 0; y < groups.y; y++)
            for (unsigned x = 0; x < groups.x; x++) {
                place->group = {x, y, z};
                runner->run_group();
            }
}

// Returns whether a kernel only gets memory of the device that runs it, or of a device that this one has access to.
// Every argument that looks like an address is treated as an address.
static bool reaches_all(const Node &node, Device *device) {
    for (size_t at = 0; at + 8 <= node.packed.size(); at += 8) {
        uintptr_t word;
        memcpy(&word, node.packed.data() + at, 8);
        Device *owner = owner_of(word);
        if (!owner || owner == device) continue;
        std::lock_guard guard(device->lock);
        if (!device->peers.count(owner)) return false;
        count("reaches for peers");
    }
    return true;
}

Code launch(Stream *stream, const Function *function, const unsigned grid[3], const unsigned block[3], void **arguments) {
    auto node = std::make_shared<Node>();
    if (!prepare(*node, function, grid, block, arguments)) return INVALID_VALUE;
    count("launches on stream " + std::to_string(stream->number));
    stream->device->launched();
    Code code = stream->device->stuck; // a later call reports an error of this launch
    stream->push([node, device = stream->device] {
        device->gather();
        if (reaches_all(*node, device)) execute(*node);
        else device->fail(ILLEGAL_ADDRESS);
        device->ended();
    });
    return code;
}

void count_shape(unsigned shared_bytes, const unsigned cluster[3], bool is_cooperative) {
    if (shared_bytes) count("launches with " + std::to_string(shared_bytes) + " shared bytes");
    if (cluster) count("launches in clusters of " + std::to_string(cluster[0] * cluster[1] * cluster[2]));
    if (is_cooperative) count("cooperative launches");
}

Code create(Graph **graph) {
    count("live graphs");
    *graph = new Graph;
    return SUCCESS;
}

Code create_condition(Graph *, unsigned value, uint64_t *handle) {
    static std::atomic<uint64_t> made{0x1000};
    std::lock_guard guard(conditions().lock);
    conditions().values[*handle = ++made] = value;
    return SUCCESS;
}

Code add_loop(Graph *graph, uint64_t handle, Graph **iteration) {
    // The real driver accepts other nodes too, which the runtime does not need.
    if (graph->iteration || !graph->nodes.empty()) return INVALID_VALUE;
    std::lock_guard guard(conditions().lock);
    auto found = conditions().values.find(handle);
    if (found == conditions().values.end()) return INVALID_VALUE;
    graph->iteration = std::make_unique<Graph>(), graph->condition = handle, graph->at_first = found->second;
    *iteration = graph->iteration.get();
    return SUCCESS;
}

Code destroy(Graph *graph) {
    count("live graphs", -1);
    delete graph;
    return SUCCESS;
}

Code add(Graph *graph, Node *const *before, size_t number, const Function *function, const unsigned grid[3],
         const unsigned block[3], void **arguments, Node **node) {
    auto made = std::make_unique<Node>();
    made->number = graph->nodes.size();
    if (!prepare(*made, function, grid, block, arguments)) return INVALID_VALUE;
    for (size_t n = 0; n < number; n++) made->before.push_back(before[n]->number);
    *node = made.get();
    graph->nodes.push_back(std::move(made));
    return SUCCESS;
}

/// Reports the number of nodes on a graph's longest path, and how many nodes are at most equally far from the start.
static void report_shape(const Graph *graph) {
    static std::atomic<int> made{0};
    std::string name = "graph " + std::to_string(made++);
    std::vector<long> depths, widths(graph->nodes.size() + 1);
    for (auto &node : graph->nodes) {
        long depth = 1;
        for (size_t before : node->before) depth = std::max(depth, depths[before] + 1);
        depths.push_back(depth);
        at_least(name + " width", ++widths[depth]);
        at_least(name + " longest chain", depth);
    }
}

Code instantiate(Graph *graph, Instance **instance) {
    count("live graph instances");
    *instance = new Instance;
    if (graph->iteration) {
        (*instance)->condition = graph->condition, (*instance)->at_first = graph->at_first;
        graph = graph->iteration.get();
    }
    report_shape(graph);
    for (auto &node : graph->nodes) (*instance)->nodes.push_back(*node);
    return SUCCESS;
}

Code set(Instance *instance, const Node *node, const Function *function, const unsigned grid[3], const unsigned block[3],
         void **arguments) {
    if (*instance->in_flight) broken("a graph was changed in flight");
    Node &mine = instance->nodes.at(node->number);
    if (mine.function != function) return INVALID_VALUE; // the manual of the first releases requires the same kernel
    return prepare(mine, function, grid, block, arguments) ? SUCCESS : INVALID_VALUE;
}

/// Executes the nodes of a graph in an order that their edges allow.
static void execute_all(const std::vector<Node> &nodes, uint64_t &random) {
    std::vector<size_t> waits(nodes.size()), ready;
    std::vector<std::vector<size_t>> behind(nodes.size());
    for (auto &node : nodes) {
        waits[node.number] = node.before.size();
        for (size_t before : node.before) behind[before].push_back(node.number);
        if (node.before.empty()) ready.push_back(node.number);
    }
    while (!ready.empty()) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        std::swap(ready[(random >> 33) % ready.size()], ready.back());
        size_t next = ready.back();
        ready.pop_back();
        execute(nodes[next]);
        for (size_t later : behind[next])
            if (!--waits[later]) ready.push_back(later);
    }
}

Code launch(Stream *stream, Instance *instance) {
    auto nodes = std::make_shared<std::vector<Node>>(instance->nodes);
    count("graph launches");
    count("kernels in graphs", nodes->size());
    uint64_t condition = instance->condition;
    if (condition) {
        count("launches of loops");
        set_condition(condition, instance->at_first);
    }
    auto in_flight = instance->in_flight;
    ++*in_flight;
    uint64_t random = stream->random ^ (uint64_t)nodes->data();
    stream->push([nodes, random, condition]() mutable {
        if (!condition) return execute_all(*nodes, random);
        for (unsigned again = 1; again;) {
            count("iterations of loops");
            execute_all(*nodes, random);
            std::lock_guard guard(conditions().lock);
            again = conditions().values[condition];
        }
    });
    stream->push_always([in_flight] { --*in_flight; });
    return stream->device->stuck;
}

Code destroy(Instance *instance) {
    // After an error, the device runs nothing, so nothing has to wait for the graph.
    bool any_stuck = false;
    for (Device *device : devices()) any_stuck |= device->stuck != SUCCESS;
    if (*instance->in_flight && !any_stuck) broken("a graph was destroyed in flight");
    count("live graph instances", -1);
    delete instance;
    return SUCCESS;
}

static std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Returns a temporary folder, which is removed when the process ends.
static std::string folder() {
    static std::string *one = [] {
        char name[] = "/tmp/standin-XXXXXX";
        auto *made = new std::string(mkdtemp(name));
        atexit([] {
            if (system(("rm -rf " + folder()).c_str())) perror("a folder is left");
        });
        return made;
    }();
    return *one;
}
static std::string fresh(const char *end) {
    static std::atomic<int> made{0};
    return folder() + "/" + std::to_string(made++) + end;
}

/// Returns the names of kernels: the words after `__launch_bounds__(...)` in a preprocessed text.
static std::vector<std::string> kernels_in(const std::string &text) {
    std::vector<std::string> names;
    const std::string mark = "__launch_bounds__";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
        at = text.find('(', at);
        for (int depth = 0; at < text.size();) {
            depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
            at++;
            if (!depth) break;
        }
        while (at < text.size() && isspace(text[at])) at++;
        size_t end = at;
        while (end < text.size() && (isalnum(text[end]) || text[end] == '_')) end++;
        names.push_back(text.substr(at, end - at));
    }
    return names;
}

/// Converts places from `file:line:column: rest` to the form of NVRTC: `file(line): rest`.
static std::string in_brackets(const std::string &log) {
    std::stringstream lines(log);
    std::string line, result;
    while (std::getline(lines, line)) {
        char file[200], rest[2000] = "";
        int row, column;
        if (sscanf(line.c_str(), "%199[^:]:%d:%d: %1999[^\n]", file, &row, &column, rest) == 4)
            line = std::string(file) + "(" + std::to_string(row) + "): " + rest;
        result += line + "\n";
    }
    return result;
}

bool Unit::compile(const std::vector<std::string> &options, bool places_in_brackets) {
    count("compilations");
    const char *given = getenv("STANDIN_CXX");
    std::string compiler = given ? given : "c++", defines, text = fresh(".cpp"), plain = text + ".i", out = text + ".so";
    for (auto &option : options)
        if (option.rfind("-D", 0) == 0) defines += " '" + option + "'";
    std::ofstream(text) << source;
    auto run = [&](const std::string &command) { return system((command + " 2>>" + text + ".log").c_str()) == 0; };
    bool compiled = run(compiler + defines + " -E -x c++ " + text + " -o " + plain);
    if (compiled) {
        std::string preprocessed = contents(plain), doors;
        for (auto &name : kernels_in(preprocessed)) doors += "STANDIN_KERNEL(" + name + ")\n";
        std::ofstream(text) << "#include \"" STANDIN_FOLDER "/host.h\"\n" << preprocessed << "\n" << doors;
        compiled = run(compiler + " -std=c++17 -O1 -w -fPIC -shared -Wl,-Bsymbolic -fno-strict-aliasing -ffp-contract=off " + text +
                       " -o " + out);
    }
    log = contents(text + ".log");
    if (places_in_brackets) log = in_brackets(log);
    if (compiled) object = contents(out);
    return compiled;
}

constexpr char MAGIC[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', 1};

std::string image_of(const std::string &object, bool is_text, int architecture, int toolkit) {
    ImageHead head{{}, object.size(), is_text, architecture, toolkit, 0};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    return std::string((char *)&head, sizeof head) + object;
}

const ImageHead *head_of(const void *image) {
    return memcmp(image, MAGIC, sizeof MAGIC) == 0 ? (const ImageHead *)image : nullptr;
}

Code load(const void *image, Module **module) {
    const ImageHead *head = head_of(image);
    if (!head) return INVALID_IMAGE;
    std::string file = fresh(".so");
    std::ofstream(file, std::ios::binary).write((const char *)(head + 1), head->bytes);
    void *opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(file.c_str());
    if (!opened) return INVALID_IMAGE;
    count("live modules");
    *module = new Module{opened, file};
    return SUCCESS;
}

Code unload(Module *module) {
    // The object stays open, because threads may have thread-local variables in it.
    count("live modules", -1);
    delete module;
    return SUCCESS;
}

Code function(Module *module, const char *name, Function **function) {
    auto find = [&](const std::string &prefix) { return dlsym(module->object, (prefix + name).c_str()); };
    void *pack = find("standin_pack_"), *call = find("standin_call_"), *place = dlsym(module->object, "standin_where");
    if (!pack || !call || !place) return NOT_FOUND;
    *function = new Function{name, (unsigned (*)(void **, unsigned char *))pack, (void (*)(const unsigned char *))call,
                             (void *(*)())place};
    return SUCCESS;
}

} // namespace standin
