// The six benchmarks of bitcoin/bitcoin#30987 on Bitcoin Core's own headers and objects.
// tools/build-core-policies compiles and links this in each memory policy; core-policies runs it.
//
//   benchmarks NAME BLOCK DIRECTORY time EPOCHS MILLISECONDS
//   benchmarks NAME BLOCK DIRECTORY count ITERATIONS
//
// BLOCK is a raw block of the main chain, DIRECTORY one that CCoinsViewDBFlush may make. `time` prints
// the nanoseconds per unit of each epoch, in a line; `count` only runs, for a tool that counts
// instructions, and prints the units.

#include <bitcoin-build-config.h> // IWYU pragma: keep

#include <chainparams.h>
#include <coins.h>
#include <common/args.h>
#include <consensus/amount.h>
#include <consensus/validation.h>
#include <net.h>
#include <netmessagemaker.h>
#include <primitives/block.h>
#include <protocol.h>
#include <random.h>
#include <script/script.h>
#include <streams.h>
#include <test/util/net.h>
#include <test/util/setup_common.h>
#include <txdb.h>
#include <util/chaintype.h>
#include <util/fs.h>
#include <validation.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

const std::function<void(const std::string&)> G_TEST_LOG_FUN{};
const std::function<std::vector<const char*>()> G_TEST_COMMAND_LINE_ARGUMENTS{};
const std::function<std::string()> G_TEST_GET_FULL_NAME{};

namespace {

struct Benchmark {
    // What one iteration counts as: bytes, blocks or coins.
    uint64_t units;
    std::function<void(uint64_t iterations)> run;
};

struct Input {
    std::vector<unsigned char> block;
    fs::path directory;
};

// Keeps the compiler from removing what nobody reads.
void observe(const void* p) { __asm__ __volatile__("" : : "r"(p) : "memory"); }

[[noreturn]] void fail(const char* why)
{
    std::fprintf(stderr, "benchmarks: %s\n", why);
    std::exit(1);
}

FastRandomContext deterministic() { return FastRandomContext{uint256{1}}; }

Benchmark data_stream_alloc(const Input&)
{
    constexpr size_t SIZE{8192};
    const auto bytes{deterministic().randbytes<std::byte>(SIZE)};
    return {SIZE, [bytes](uint64_t iterations) {
                for (; iterations > 0; --iterations) {
                    const DataStream stream{MakeByteSpan(bytes)};
                    observe(stream.data());
                }
            }};
}

Benchmark data_stream_serialize_script(const Input&)
{
    const auto content{deterministic().randbytes(999)};
    const auto script{CScript() << content};
    return {script.size(), [script](uint64_t iterations) {
                for (; iterations > 0; --iterations) {
                    DataStream stream{};
                    stream << script;
                    observe(stream.data());
                }
            }};
}

CBlock decoded(const Input& input)
{
    DataStream stream{MakeByteSpan(input.block)};
    CBlock block;
    stream >> TX_WITH_WITNESS(block);
    return block;
}

// A stream that can be read again. Core 28 has Rewind for it, Core 31 nothing.
struct StreamToReadAgain : DataStream {
    using DataStream::DataStream;

    void read_again() { m_read_pos = 0; }
};

// The block behind a byte more than it, so that reading it to its end does not empty the stream.
std::shared_ptr<StreamToReadAgain> stream_of_block(const Input& input)
{
    auto stream{std::make_shared<StreamToReadAgain>(MakeByteSpan(input.block))};
    const std::byte one_more{0};
    stream->write({&one_more, 1});
    return stream;
}

Benchmark deserialize_block(const Input& input)
{
    return {1, [stream = stream_of_block(input)](uint64_t iterations) {
                for (; iterations > 0; --iterations) {
                    CBlock block;
                    *stream >> TX_WITH_WITNESS(block);
                    stream->read_again();
                }
            }};
}

Benchmark deserialize_and_check_block(const Input& input)
{
    const ArgsManager args;
    std::shared_ptr<const CChainParams> params{CreateChainParams(args, ChainType::MAIN)};
    return {1, [stream = stream_of_block(input), params](uint64_t iterations) {
                for (; iterations > 0; --iterations) {
                    CBlock block;
                    *stream >> TX_WITH_WITNESS(block);
                    stream->read_again();
                    BlockValidationState state;
                    if (!CheckBlock(block, state, params->GetConsensus())) fail("the block is invalid");
                }
            }};
}

// A peer without a socket whose messages are sent to itself.
struct Peer {
    std::unique_ptr<const TestingSetup> setup{MakeNoLogFileContext<const TestingSetup>()};
    ConnmanTestMsg& connman{static_cast<ConnmanTestMsg&>(*setup->m_node.connman)};
    PeerManager& peerman{*setup->m_node.peerman};
    CNode node;

    static CAddress address()
    {
        in_addr ip{};
        ip.s_addr = 0x0100000a;
        return CAddress{CService{CNetAddr{ip}, 8333}, NODE_NONE};
    }

    Peer()
        : node{/*id=*/0, /*sock=*/nullptr, address(), /*nKeyedNetGroupIn=*/0, /*nLocalHostNonceIn=*/0, CAddress(),
               /*addrNameIn=*/"", ConnectionType::OUTBOUND_FULL_RELAY, /*inbound_onion=*/false
#if CLIENT_VERSION_MAJOR >= 31
               ,
               /*network_key=*/0
#endif
          }
    {
        LOCK(NetEventsInterface::g_msgproc_mutex);
        const auto services{ServiceFlags(NODE_NETWORK | NODE_WITNESS)};
        connman.Handshake(node, /*successfully_connected=*/true, services, services, PROTOCOL_VERSION, /*relay_txs=*/true);
        peerman.SendMessages(
#if CLIENT_VERSION_MAJOR >= 31
            node
#else
            &node
#endif
        );
        connman.FlushSendBuffer(node);
    }

    ~Peer() { peerman.FinalizeNode(node); }
};

Benchmark process_message_block(const Input& input)
{
    return {input.block.size(), [peer = std::make_shared<Peer>(), block = decoded(input)](uint64_t iterations) {
                LOCK(NetEventsInterface::g_msgproc_mutex);
                for (; iterations > 0; --iterations) {
                    if (!peer->connman.ReceiveMsgFrom(peer->node, NetMsg::Make(NetMsgType::BLOCK, TX_WITH_WITNESS(block)))) {
                        fail("the block did not arrive");
                    }
                    peer->node.fPauseSend = false;
                    peer->connman.ProcessMessagesOnce(peer->node);
                }
            }};
}

// The LevelDB cache of a test's settings, and what a cache of coins may then hold in memory.
constexpr size_t COINS_DB_CACHE{1677721};
constexpr size_t FULL{300000000 + COINS_DB_CACHE - 10 * 1024 * 1024};

using RandomCoin = std::pair<COutPoint, Coin>;

RandomCoin random_coin(FastRandomContext& random)
{
    const COutPoint outpoint{Txid::FromUint256(random.rand256()), 0};
    const CAmount amount{static_cast<CAmount>(random.randrange(static_cast<uint64_t>(MAX_MONEY)))};
    const auto content{random.randbytes(55)};
    return {outpoint, Coin{CTxOut{amount, CScript() << content}, static_cast<int>(random.rand32() >> 2), /*fCoinBaseIn=*/false}};
}

Benchmark coins_view_db_flush(const Input& input)
{
    auto random{deterministic()};
    auto coins{std::make_shared<std::vector<RandomCoin>>()};
    {
        CCoinsViewDB empty{DBParams{.path = input.directory, .cache_bytes = COINS_DB_CACHE, .memory_only = true}, {}};
        CCoinsViewCache cache{&empty};
        while (cache.DynamicMemoryUsage() < FULL) {
            coins->push_back(random_coin(random));
            cache.AddCoin(coins->back().first, Coin{coins->back().second}, /*possible_overwrite=*/false);
        }
    }
    const auto best{random.rand256()};
    return {coins->size(), [coins, best, directory = input.directory](uint64_t iterations) {
                for (; iterations > 0; --iterations) {
                    CCoinsViewDB database{
                        DBParams{.path = directory, .cache_bytes = COINS_DB_CACHE, .wipe_data = true, .obfuscate = true}, {}};
                    CCoinsViewCache cache{&database};
                    cache.SetBestBlock(best);
                    for (const auto& [outpoint, coin] : *coins) cache.AddCoin(outpoint, Coin{coin}, /*possible_overwrite=*/false);
                    static_cast<void>(cache.Flush());
                }
            }};
}

Benchmark prepared(const std::string& name, const Input& input)
{
    if (name == "DataStreamAlloc") return data_stream_alloc(input);
    if (name == "DataStreamSerializeScript") return data_stream_serialize_script(input);
    if (name == "ProcessMessageBlock") return process_message_block(input);
    if (name == "DeserializeBlockTest") return deserialize_block(input);
    if (name == "DeserializeAndCheckBlockTest") return deserialize_and_check_block(input);
    if (name == "CCoinsViewDBFlush") return coins_view_db_flush(input);
    fail("no benchmark of that name");
}

double seconds_of(const Benchmark& benchmark, uint64_t iterations)
{
    const auto started{std::chrono::steady_clock::now()};
    benchmark.run(iterations);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

// As many iterations as an epoch has room for, at least one.
uint64_t iterations_of_epoch(const Benchmark& benchmark, double seconds)
{
    uint64_t iterations{1};
    while (true) {
        const double taken{seconds_of(benchmark, iterations)};
        if (taken >= seconds / 4) return static_cast<uint64_t>(std::max(1.0, iterations * seconds / taken));
        iterations *= 4;
    }
}

} // namespace

namespace callgrind {
// A tool that counts instructions finds the place by this name.
[[gnu::noinline]] void repeat(const Benchmark& benchmark, uint64_t iterations) { benchmark.run(iterations); }
} // namespace callgrind

int main(int argc, char* argv[])
{
    if (argc < 6) fail("NAME BLOCK DIRECTORY time EPOCHS MILLISECONDS, or NAME BLOCK DIRECTORY count ITERATIONS");
    std::ifstream file{argv[2], std::ios::binary};
    Input input{{std::istreambuf_iterator<char>{file}, {}}, fs::PathFromString(argv[3])};
    if (input.block.empty()) fail("no block");
    const auto benchmark{prepared(argv[1], input)};
    if (std::strcmp(argv[4], "count") == 0) {
        const auto iterations{std::strtoull(argv[5], nullptr, 10)};
        callgrind::repeat(benchmark, iterations);
        std::printf("%llu\n", static_cast<unsigned long long>(benchmark.units));
        return 0;
    }
    if (argc != 7) fail("time wants EPOCHS and MILLISECONDS");
    const auto iterations{iterations_of_epoch(benchmark, std::strtod(argv[6], nullptr) / 1000)};
    for (auto epochs{std::strtoull(argv[5], nullptr, 10)}; epochs > 0; --epochs) {
        std::printf("%.6f ", seconds_of(benchmark, iterations) * 1e9 / (static_cast<double>(iterations) * benchmark.units));
    }
    std::printf("\n");
    return 0;
}
