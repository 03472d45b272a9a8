// The two stream workloads of bitcoin/bitcoin#30987 on std::vector<std::byte, A> for four allocators.
//
// build.rs compiles this file once per optimisation level (LEVEL names the exported functions), and
// once more with CONTROL_INSPECT, where every allocator looks at its block before giving it back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORT(name) JOIN(JOIN(control_, LEVEL), name)

#ifdef CONTROL_INSPECT
static uint64_t g_returned{0};
static uint64_t g_not_zero{0};

// Sees each block after its owner's policy was applied and before the heap gets it. The workloads
// fill every block they allocate to its end, so no byte read here is indeterminate.
template <typename T>
struct Inspecting {
    using value_type = T;
    Inspecting() noexcept = default;
    template <typename U>
    Inspecting(const Inspecting<U>&) noexcept {}
    T* allocate(std::size_t n) { return std::allocator<T>{}.allocate(n); }
    void deallocate(T* p, std::size_t n)
    {
        g_returned += n;
        for (const T& value : std::span{p, n}) g_not_zero += value != T{};
        std::allocator<T>{}.deallocate(p, n);
    }
    template <typename U>
    friend bool operator==(const Inspecting&, const Inspecting<U>&) noexcept { return true; }
};
template <typename T>
using Upstream = Inspecting<T>;
#else
template <typename T>
using Upstream = std::allocator<T>;
#endif

// In Core these two lie in another translation unit, so the caller cannot see through them.
[[gnu::noipa]] static void wipe_and_barrier(void* p, std::size_t n)
{
    std::memset(p, 0, n);
    __asm__ __volatile__("" : : "r"(p) : "memory");
}

[[gnu::noipa]] static void barrier(void* p)
{
    __asm__ __volatile__("" : : "r"(p) : "memory");
}

enum class Policy { ZERO_AFTER_FREE, BARRIER_ONLY, NOTHING };

template <typename T, typename PolicyConstant>
struct Custom {
    using value_type = T;
    Custom() noexcept = default;
    template <typename U>
    Custom(const Custom<U, PolicyConstant>&) noexcept {}
    T* allocate(std::size_t n) { return Upstream<T>{}.allocate(n); }
    void deallocate(T* p, std::size_t n)
    {
        if constexpr (PolicyConstant::value == Policy::ZERO_AFTER_FREE) wipe_and_barrier(p, sizeof(T) * n);
        if constexpr (PolicyConstant::value == Policy::BARRIER_ONLY) barrier(p);
        Upstream<T>{}.deallocate(p, n);
    }
    template <typename U>
    friend bool operator==(const Custom&, const Custom<U, PolicyConstant>&) noexcept { return true; }
};

template <Policy P>
using CustomBytes = Custom<std::byte, std::integral_constant<Policy, P>>;

// What the workloads need of Core's DataStream (streams.h), its members the same.
template <typename A>
class Stream
{
    std::vector<std::byte, A> vch;
    std::size_t m_read_pos{0};

public:
    Stream() = default;
    explicit Stream(std::span<const std::byte> bytes) : vch(bytes.data(), bytes.data() + bytes.size()) {}
    void write(std::span<const std::byte> src) { vch.insert(vch.end(), src.begin(), src.end()); }
    const std::byte* data() const { return vch.data() + m_read_pos; }
};

// Keeps the compiler from removing the stream together with its memory.
template <typename A>
static inline void observe(const Stream<A>& stream)
{
    __asm__ __volatile__("" : : "r"(stream.data()) : "memory");
}

template <typename A>
static void data_stream_alloc(std::span<const std::byte> bytes, uint64_t iterations)
{
    for (uint64_t i{0}; i < iterations; ++i) {
        Stream<A> stream{bytes};
        observe(stream);
    }
}

// Core's ser_writedata8, ser_writedata16 and the script's bytes, one DataStream::write each.
template <typename A>
static void serialize_script(std::span<const std::byte> script, uint64_t iterations)
{
    for (uint64_t i{0}; i < iterations; ++i) {
        Stream<A> stream;
        const uint8_t marker{253};
        const uint16_t length{static_cast<uint16_t>(script.size())};
        stream.write(std::as_bytes(std::span{&marker, 1}));
        stream.write(std::as_bytes(std::span{&length, 1}));
        stream.write(script);
        observe(stream);
    }
}

template <typename A>
static void run(int workload, std::span<const std::byte> input, uint64_t iterations)
{
    if (workload == 0) {
        data_stream_alloc<A>(input, iterations);
    } else {
        serialize_script<A>(input, iterations);
    }
}

extern "C" void EXPORT(_run)(int workload, int allocator, const std::byte* input, std::size_t size, uint64_t iterations)
{
    const std::span bytes{input, size};
    switch (allocator) {
    case 0: return run<CustomBytes<Policy::ZERO_AFTER_FREE>>(workload, bytes, iterations);
    case 1: return run<CustomBytes<Policy::BARRIER_ONLY>>(workload, bytes, iterations);
    case 2: return run<CustomBytes<Policy::NOTHING>>(workload, bytes, iterations);
    default: return run<Upstream<std::byte>>(workload, bytes, iterations);
    }
}

#ifdef CONTROL_INSPECT
// Bytes given back since the last call, and how many of them were not zero. One thread at a time.
extern "C" void EXPORT(_take_counts)(uint64_t* returned, uint64_t* not_zero)
{
    *returned = g_returned;
    *not_zero = g_not_zero;
    g_returned = 0;
    g_not_zero = 0;
}
#endif
