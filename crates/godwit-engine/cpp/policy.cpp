// What Bitcoin Core's nodes refuse to relay although blocks may contain it (src/policy/policy.cpp), and what BIP322
// refuses as a signature of a message, behind extern "C"; and which rule a script in a block breaks, which the
// kernel's interface does not say. The functions are those of libbitcoinkernel.a. No exception leaves.

#include <coins.h>
#include <policy/feerate.h>
#include <policy/policy.h>
#include <primitives/transaction.h>
#include <script/interpreter.h>
#include <script/script_error.h>
#include <serialize.h>
#include <streams.h>
#include <tinyformat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// As in policy.rs.
struct godwit_spent {
    std::int64_t value;
    const unsigned char* script;
    std::size_t script_len;
};

namespace {

enum Answer : int { HOLDS = 0, REFUSED = 1, FAILED = 2 };
enum Stage : int { ALONE = 0, INPUTS = 1, SCRIPTS = 2, MESSAGE_REQUIRED = 3, MESSAGE_UPGRADABLE = 4 };

// BIP322's "required rules", beyond those of consensus. Bitcoin Core has no list of its own yet.
constexpr script_verify_flags MESSAGE_REQUIRED_FLAGS{
    MANDATORY_SCRIPT_VERIFY_FLAGS | SCRIPT_VERIFY_CONST_SCRIPTCODE | SCRIPT_VERIFY_LOW_S | SCRIPT_VERIFY_STRICTENC |
    SCRIPT_VERIFY_NULLFAIL | SCRIPT_VERIFY_MINIMALDATA | SCRIPT_VERIFY_CLEANSTACK | SCRIPT_VERIFY_MINIMALIF};

// Its "upgradeable rules", and what else consensus leaves to later rules.
constexpr script_verify_flags MESSAGE_UPGRADABLE_FLAGS{
    MESSAGE_REQUIRED_FLAGS | SCRIPT_VERIFY_DISCOURAGE_UPGRADABLE_NOPS |
    SCRIPT_VERIFY_DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM | SCRIPT_VERIFY_DISCOURAGE_UPGRADABLE_TAPROOT_VERSION |
    SCRIPT_VERIFY_DISCOURAGE_OP_SUCCESS | SCRIPT_VERIFY_DISCOURAGE_UPGRADABLE_PUBKEYTYPE};

struct Refusal {
    std::string reason;
    std::string details;
};

std::optional<Refusal> alone(const CTransaction& tx)
{
    std::string reason;
    if (IsStandardTx(tx, MAX_OP_RETURN_RELAY, DEFAULT_PERMIT_BAREMULTISIG, CFeeRate{DUST_RELAY_TX_FEE}, reason)) return {};
    return Refusal{reason, ""};
}

CTxOut output(const godwit_spent& spent)
{
    return CTxOut{spent.value, CScript(spent.script, spent.script + spent.script_len)};
}

std::optional<Refusal> inputs(const CTransaction& tx, std::span<const godwit_spent> spent)
{
    CCoinsViewCache view{&CoinsViewEmpty::Get()};
    for (std::size_t n = 0; n < spent.size(); ++n) {
        // The height and the kind of the creating transaction are not asked for. AddCoin would leave out what
        // nobody can spend, which Core's mempool finds as an output of an unconfirmed transaction.
        view.EmplaceCoinInternalDANGER(COutPoint{tx.vin[n].prevout}, Coin{output(spent[n]), 1, false});
    }
    const TxValidationState state{ValidateInputsStandardness(tx, view)};
    if (state.IsInvalid()) return Refusal{state.GetRejectReason(), state.GetDebugMessage()};
    if (tx.HasWitness() && !IsWitnessStandard(tx, view)) return Refusal{"bad-witness-nonstandard", ""};
    return {};
}

struct Broken {
    std::size_t input;
    ScriptError rule;
};

// The first of the inputs from `from` to before `end` whose script breaks one of these rules, and which.
std::optional<Broken> broken(const CTransaction& tx, std::span<const godwit_spent> spent, script_verify_flags flags,
                             std::size_t from, std::size_t end)
{
    std::vector<CTxOut> outputs;
    outputs.reserve(spent.size());
    for (const godwit_spent& one : spent) outputs.push_back(output(one));
    PrecomputedTransactionData data;
    data.Init(tx, std::move(outputs));
    for (std::size_t n = from; n < end; ++n) {
        const CTxIn& in{tx.vin[n]};
        const CTxOut& out{data.m_spent_outputs[n]};
        ScriptError error{SCRIPT_ERR_UNKNOWN_ERROR};
        const TransactionSignatureChecker checker{&tx, static_cast<unsigned int>(n), out.nValue, data, MissingDataBehavior::FAIL};
        if (VerifyScript(in.scriptSig, out.scriptPubKey, &in.scriptWitness, flags, checker, &error)) continue;
        return Broken{n, error};
    }
    return {};
}

// Texts of rules, which stay where they are.
const std::string& rule_text(ScriptError rule)
{
    static const std::vector<std::string> texts{[] {
        std::vector<std::string> all;
        for (int n = 0; n <= SCRIPT_ERR_ERROR_COUNT; ++n) all.push_back(ScriptErrorString(static_cast<ScriptError>(n)));
        return all;
    }()};
    return texts.at(rule);
}

std::optional<Refusal> scripts(const CTransaction& tx, std::span<const godwit_spent> spent)
{
    const std::optional<Broken> found{broken(tx, spent, STANDARD_SCRIPT_VERIFY_FLAGS, 0, spent.size())};
    if (!found) return {};
    const COutPoint& prevout{tx.vin[found->input].prevout};
    return Refusal{
        strprintf("mempool-script-verify-flag-failed (%s)", rule_text(found->rule)),
        strprintf("input %i of %s (wtxid %s), spending %s:%i", found->input, tx.GetHash().ToString(),
                  tx.GetWitnessHash().ToString(), prevout.hash.ToString(), prevout.n)};
}

std::optional<Refusal> message(const CTransaction& tx, std::span<const godwit_spent> spent, script_verify_flags flags)
{
    const std::optional<Broken> found{broken(tx, spent, flags, 0, spent.size())};
    if (!found) return {};
    return Refusal{rule_text(found->rule), ""};
}

std::optional<Refusal> judge(int stage, const CTransaction& tx, std::span<const godwit_spent> spent)
{
    switch (stage) {
    case ALONE: return alone(tx);
    case INPUTS: return inputs(tx, spent);
    case SCRIPTS: return scripts(tx, spent);
    case MESSAGE_REQUIRED: return message(tx, spent, MESSAGE_REQUIRED_FLAGS);
    default: return message(tx, spent, MESSAGE_UPGRADABLE_FLAGS);
    }
}

void put(const std::string& text, char* to, std::size_t room)
{
    const std::size_t length{std::min(text.size(), room - 1)};
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
}

} // namespace

extern "C" int godwit_engine_policy(int stage, const unsigned char* bytes, std::size_t length, const godwit_spent* spent,
                                    std::size_t count, char* reason, char* details, std::size_t room)
{
    try {
        CMutableTransaction parsed;
        SpanReader{std::span{bytes, length}} >> TX_WITH_WITNESS(parsed);
        const CTransaction tx{std::move(parsed)};
        if (stage != ALONE && count != tx.vin.size()) return FAILED;
        const std::span<const godwit_spent> coins{spent, count};
        const std::optional<Refusal> refusal{judge(stage, tx, coins)};
        if (!refusal) return HOLDS;
        put(refusal->reason, reason, room);
        put(refusal->details, details, room);
        return REFUSED;
    } catch (const std::exception&) {
        return FAILED;
    }
}

// The rule that the script of an input breaks under these flags, as a text that stays; null where it breaks none, or that
// cannot be found out.
extern "C" const char* godwit_engine_broken_rule(const unsigned char* bytes, std::size_t length, const godwit_spent* spent,
                                                 std::size_t count, std::size_t input, unsigned int flags)
{
    try {
        CMutableTransaction parsed;
        SpanReader{std::span{bytes, length}} >> TX_WITH_WITNESS(parsed);
        const CTransaction tx{std::move(parsed)};
        if (count != tx.vin.size() || input >= count) return nullptr;
        const std::optional<Broken> found{
            broken(tx, std::span{spent, count}, script_verify_flags::from_int(flags), input, input + 1)};
        return found ? rule_text(found->rule).c_str() : nullptr;
    } catch (const std::exception&) {
        return nullptr;
    }
}
