// A running threadgroup as the dialect sees it: the thread that is current, where it stops, and what its group and
// simdgroup share. The structures are mirrored field by field in src/abi.rs.

namespace metal_sim {

constexpr uint32_t simd_width = 32;

// What the lanes of a simdgroup hand each other in one operation. There are two pages, used in turn: a lane that runs
// ahead writes into the other page, and cannot come back to this one before every lane has arrived there, and so has
// read here.
struct alignas(64) exchange_page {
    unsigned char deposit[1024];  // one slot a lane, or the operands of a matrix operation
    unsigned char result[512];    // what the first lane to resume computes for all
    uint64_t result_step;         // the step `result` belongs to, plus one
    uint32_t active;              // lanes that took part: bit per lane
};

struct simdgroup {
    exchange_page page[2];
    uint64_t step;  // operations completed so far
};

constexpr uint32_t max_shared_arrays = 64;

struct group {
    uint32_t grid[3];            // threads
    uint32_t requested[3];       // threads a group, as dispatched
    uint32_t groups[3];          // groups in the grid
    uint32_t position[3];        // of this group
    uint32_t size[3];            // threads of this group: smaller at the far edges
    unsigned char* arena;        // threadgroup memory, with a red zone after each variable
    uint64_t arena_used;
    uint64_t declared;           // bytes of the variables so far
    uint64_t limit;              // bytes they may take
    uint64_t wanted;             // what a variable that does not fit would bring `declared` to
    void* shared[max_shared_arrays];
    uint64_t shared_bytes[max_shared_arrays];
};

enum class stop_scope : uint32_t {
    simd = 0,         // wait for the lanes of this simdgroup
    matrix = 1,       // the same; all 32 lanes must be there
    group = 2,        // wait for every thread of the group
    fault = 3,        // never resumed
};

struct lane {
    group* in_group;
    simdgroup* in_simdgroup;
    void (*suspend)(lane*);
    void* coroutine;
    const char* stop_operation;
    const char* stop_file;
    uint32_t stop_line;
    stop_scope scope;
    uint32_t position[3];  // in the group
    uint32_t index;        // in the group
};

// The lane that runs now on this host thread: set by the scheduler before it lets a lane run.
static thread_local lane* current;

#define METAL_SIM_AT uint32_t line = __builtin_LINE(), const char* file = __builtin_FILE()

inline void stop(lane* self, stop_scope scope, const char* operation, uint32_t line, const char* file) {
    self->stop_operation = operation;
    self->stop_file = file;
    self->stop_line = line;
    self->scope = scope;
    self->suspend(self);
}

inline uint32_t lane_index(const lane* self) { return self->index % simd_width; }

// A threadgroup variable of the body. `threadgroup float buf[N];` is rewritten to
//     typedef float metal_sim_type_0 [N]; metal_sim_type_0& buf = metal_sim::shared<metal_sim_type_0>(0);
// The first thread to come by lays the variable out; it lies at the same place in every group of a launch. Metal counts
// sizes in steps of 16 bytes.
constexpr uint64_t red_zone = 64;

template <class T> inline T& shared(uint32_t slot, METAL_SIM_AT) {
    group* g = current->in_group;
    if (g->shared[slot] == nullptr) {
        const uint64_t declared = g->declared + (sizeof(T) + 15) / 16 * 16;
        while (declared > g->limit) {
            g->wanted = declared;
            stop(current, stop_scope::fault, "threadgroup declaration", line, file);
        }
        g->declared = declared;
        g->shared[slot] = g->arena + g->arena_used;
        g->shared_bytes[slot] = sizeof(T);
        g->arena_used += (sizeof(T) + 63) / 64 * 64 + red_zone;
    }
    return *reinterpret_cast<T*>(g->shared[slot]);
}

// The attributes a body may ask for by name.
inline vec<uint, 3> triple(const uint32_t (&v)[3]) { return vec<uint, 3>(v[0], v[1], v[2]); }
inline uint product(const uint32_t (&v)[3]) { return v[0] * v[1] * v[2]; }
inline uint blocks(uint threads, uint width) { return (threads + width - 1) / width; }

}  // namespace metal_sim

namespace metal {

enum class mem_flags : uint {
    mem_none = 0,
    mem_device = 1,
    mem_threadgroup = 2,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8,
    mem_device_and_threadgroup = 3,
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
    return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}

inline void threadgroup_barrier(mem_flags, METAL_SIM_AT) {
    metal_sim::stop(metal_sim::current, metal_sim::stop_scope::group, "threadgroup_barrier", line, file);
}
inline void simdgroup_barrier(mem_flags, METAL_SIM_AT) {
    metal_sim::stop(metal_sim::current, metal_sim::stop_scope::simd, "simdgroup_barrier", line, file);
}

}  // namespace metal
