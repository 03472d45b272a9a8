// What Bitcoin Core's nodes refuse to relay although blocks may contain it (src/policy/policy.cpp), behind
// extern "C". The functions are those of libbitcoinkernel.a. No exception leaves.

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
enum Stage : int { ALONE = 0, INPUTS = 1, SCRIPTS = 2 };

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
        // The height and the kind of the creating transaction are not asked for.
        view.AddCoin(tx.vin[n].prevout, Coin{output(spent[n]), 1, false}, /*possible_overwrite=*/true);
    }
    const TxValidationState state{ValidateInputsStandardness(tx, view)};
    if (state.IsInvalid()) return Refusal{state.GetRejectReason(), state.GetDebugMessage()};
    if (tx.HasWitness() && !IsWitnessStandard(tx, view)) return Refusal{"bad-witness-nonstandard", ""};
    return {};
}

std::optional<Refusal> scripts(const CTransaction& tx, std::span<const godwit_spent> spent)
{
    std::vector<CTxOut> outputs;
    outputs.reserve(spent.size());
    for (const godwit_spent& one : spent) outputs.push_back(output(one));
    PrecomputedTransactionData data;
    data.Init(tx, std::move(outputs));
    for (std::size_t n = 0; n < spent.size(); ++n) {
        const CTxIn& in{tx.vin[n]};
        const CTxOut& out{data.m_spent_outputs[n]};
        ScriptError error{SCRIPT_ERR_UNKNOWN_ERROR};
        const TransactionSignatureChecker checker{&tx, static_cast<unsigned int>(n), out.nValue, data, MissingDataBehavior::FAIL};
        if (VerifyScript(in.scriptSig, out.scriptPubKey, &in.scriptWitness, STANDARD_SCRIPT_VERIFY_FLAGS, checker, &error)) continue;
        return Refusal{
            strprintf("mempool-script-verify-flag-failed (%s)", ScriptErrorString(error)),
            strprintf("input %i of %s (wtxid %s), spending %s:%i", n, tx.GetHash().ToString(),
                      tx.GetWitnessHash().ToString(), in.prevout.hash.ToString(), in.prevout.n)};
    }
    return {};
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
        const std::optional<Refusal> refusal{stage == ALONE ? alone(tx) : stage == INPUTS ? inputs(tx, coins) : scripts(tx, coins)};
        if (!refusal) return HOLDS;
        put(refusal->reason, reason, room);
        put(refusal->details, details, room);
        return REFUSED;
    } catch (const std::exception&) {
        return FAILED;
    }
}
