// How Bitcoin Core's own DataStream copies and fills its memory, for a tool that counts instructions
// (tools/count-stream-instructions). Nothing of Core is linked but what its header makes inline.
//
//   stream_copies WHAT ITERATIONS       prints the bytes of an iteration

#include <streams.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// Core's, in a place that no caller sees through.
[[gnu::noinline]] void memory_cleanse(void* p, size_t n)
{
    std::memset(p, 0, n);
    __asm__ __volatile__("" : : "r"(p) : "memory");
}

// The barrier alone, for the header that calls it.
[[gnu::noinline]] void stream_cleanse(void* p, std::size_t) { __asm__ __volatile__("" : : "r"(p) : "memory"); }

namespace {

using Bytes = std::vector<std::byte>;

void observe(const void* p) { __asm__ __volatile__("" : : "r"(p) : "memory"); }

// DataStreamAlloc of the pull request: where the source lies is read from memory in each iteration, and
// the compiler cannot know that it is not the stream of the iteration before.
[[gnu::noinline]] void from_memory(const Bytes& bytes, uint64_t iterations)
{
    for (; iterations > 0; --iterations) {
        const DataStream stream{MakeByteSpan(bytes)};
        observe(stream.data());
    }
}

// The same of a span that the caller passes in registers: nothing that is allocated here can lie in it.
[[gnu::noinline]] void from_parameter(decltype(MakeByteSpan(Bytes{})) bytes, uint64_t iterations)
{
    for (; iterations > 0; --iterations) {
        const DataStream stream{bytes};
        observe(stream.data());
    }
}

// DataStreamSerializeScript: the length in two writes, then the script; the stream grows twice.
[[gnu::noinline]] void written(const Bytes& bytes, uint64_t iterations)
{
    for (; iterations > 0; --iterations) {
        DataStream stream{};
        WriteCompactSize(stream, bytes.size());
        stream.write(MakeByteSpan(bytes));
        observe(stream.data());
    }
}

// What a message in plain does to the buffer it arrives in: 256 KiB more at a time, filled with zeros,
// then overwritten.
[[gnu::noinline]] void grown(const Bytes& bytes, uint64_t iterations)
{
    for (; iterations > 0; --iterations) {
        DataStream stream{};
        for (size_t have{0}; have < bytes.size();) {
            const size_t more{std::min<size_t>(bytes.size() - have, 256 * 1024)};
            stream.resize(have + more);
            std::memcpy(stream.data() + have, bytes.data() + have, more);
            have += more;
        }
        observe(stream.data());
    }
}

} // namespace

int main(int argc, char* argv[])
{
    if (argc != 3) return 2;
    const auto iterations{std::strtoull(argv[2], nullptr, 10)};
    const auto of{[](size_t size) { return Bytes(size, std::byte{7}); }};
    size_t bytes{8192};
    if (std::strcmp(argv[1], "from-memory") == 0) {
        from_memory(of(bytes), iterations);
    } else if (std::strcmp(argv[1], "from-parameter") == 0) {
        const auto source{of(bytes)};
        from_parameter(MakeByteSpan(source), iterations);
    } else if (std::strcmp(argv[1], "written") == 0) {
        bytes = 1002;
        written(of(bytes), iterations);
    } else if (std::strcmp(argv[1], "grown") == 0) {
        bytes = 1'000'000;
        grown(of(bytes), iterations);
    } else {
        return 2;
    }
    std::printf("%zu\n", bytes);
}
