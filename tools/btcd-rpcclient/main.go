// Command btcd-rpcclient calls a node by btcd's rpcclient over HTTP: every method of it that a node without a
// mempool and a wallet answers. The node is on regtest, with -txindex, -blockfilterindex and a ZeroMQ publisher, and
// nobody else uses it. It ends with 0 when all was as expected.
//
//	btcd-rpcclient PORT USER PASSWORD
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcjson"
	"github.com/btcsuite/btcd/btcutil/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/rpcclient"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

var params = &chaincfg.RegressionNetParams

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func assert(holds bool, format string, args ...any) {
	if !holds {
		log.Panicf(format, args...)
	}
}

// failures are all collected before the end.
var failures []string

// reads notes that a reply was not read.
func reads[T any](method string, value T, err error) T {
	if err != nil {
		failures = append(failures, fmt.Sprintf("%s: %v", method, err))
	}
	return value
}

// works is the same without a result.
func works(method string, err error) {
	reads(method, 0, err)
}

// anyone is an output that takes a witness of one word, and no key.
func anyone() address.Address {
	script := sha256.Sum256([]byte{txscript.OP_TRUE})
	return must(address.NewAddressWitnessScriptHash(script[:], params))
}

func somebody(number byte) address.Address {
	return must(address.NewAddressWitnessPubKeyHash(bytes.Repeat([]byte{number}, 20), params))
}

// spend pays an output of anyone's to anyone, a thousand satoshi less.
func spend(coin wire.OutPoint, value int64) *wire.MsgTx {
	tx := wire.NewMsgTx(2)
	tx.AddTxIn(wire.NewTxIn(&coin, nil, wire.TxWitness{{txscript.OP_TRUE}}))
	tx.AddTxOut(wire.NewTxOut(value-1000, must(txscript.PayToAddrScript(anyone()))))
	return tx
}

func serialised(tx *wire.MsgTx) []byte {
	var raw bytes.Buffer
	assert(tx.Serialize(&raw) == nil, "serialised")
	return raw.Bytes()
}

func main() {
	config := &rpcclient.ConnConfig{
		Host: "127.0.0.1:" + os.Args[1], User: os.Args[2], Pass: os.Args[3],
		HTTPPostMode: true, DisableTLS: true,
	}
	c := must(rpcclient.New(config, nil))
	defer c.Shutdown()
	version := must(c.BackendVersion())
	// It is told from btcd, and taken for a Core that has everything.
	assert(version.SupportUnifiedSoftForks() && version.SupportGetTxSpendingPrevOut() &&
		version.SupportTestMempoolAccept(), "%v", version)

	// Two branches from the same block: the longer one waits.
	must(c.GenerateToAddress(103, anyone(), nil))
	short := must(c.GenerateToAddress(3, somebody(1), nil))
	works("invalidateblock", c.InvalidateBlock(short[0]))
	long := must(c.GenerateToAddress(4, somebody(2), nil))
	works("invalidateblock", c.InvalidateBlock(long[0]))
	works("reconsiderblock", c.ReconsiderBlock(short[0]))
	round(c, short)
	works("reconsiderblock", c.ReconsiderBlock(long[0]))
	round(c, long)
	tips := must(c.GetChainTips())
	assert(len(tips) == 2 && tips[0].Status == "active" && tips[1].Status == "valid-fork", "%+v", tips)
	blocks(c, long[3])
	coin := transactions(c)
	sending(c, coin)
	network(c)
	util(c)
	batch(config, long)
	assert(len(failures) == 0, "%d failures:\n%s", len(failures), strings.Join(failures, "\n"))
	fmt.Println("btcd rpcclient: all was as expected")
}

// round asks for the chain's end; these are its last blocks.
func round(c *rpcclient.Client, last []*chainhash.Hash) {
	tip := last[len(last)-1]

	best := *must(c.GetBestBlockHash())
	assert(best == *tip, "%v, not %v", best, tip)
	count := must(c.GetBlockCount())
	assert(count == 103+int64(len(last)), "%d", count)
	for i, hash := range last {
		height := count - int64(len(last)-1-i)
		assert(*must(c.GetBlockHash(height)) == *hash, "%d", height)
		assert(must(c.GetBlock(hash)).BlockHash() == *hash, "%d", height)
		assert(int64(must(c.GetBlockHeaderVerbose(hash)).Height) == height, "%d", height)
	}
	info, err := c.GetBlockChainInfo()
	reads("getblockchaininfo", info, err)
	if err == nil {
		assert(info.BestBlockHash == tip.String() && int64(info.Blocks) == count, "%+v", info)
		assert(info.Chain == "regtest" && !info.Pruned, "%+v", info)
	}
}

func blocks(c *rpcclient.Client, tip *chainhash.Hash) {
	header := must(c.GetBlockHeader(tip))
	assert(header.BlockHash() == *tip, "%v", header)
	one, err := c.GetBlockVerbose(tip)
	reads("getblock 1", one, err)
	two, err := c.GetBlockVerboseTx(tip)
	reads("getblock 2", two, err)
	stats, err := c.GetBlockStats(tip, nil)
	reads("getblockstats", stats, err)
	stats, err = c.GetBlockStats(107, &[]string{"txs", "height"})
	reads("getblockstats", stats, err)
	tx, err := c.GetChainTxStats()
	reads("getchaintxstats", tx, err)
	tx, err = c.GetChainTxStatsNBlocksBlockHash(5, *tip)
	reads("getchaintxstats", tx, err)
	difficulty, err := c.GetDifficulty()
	reads("getdifficulty", difficulty, err)
	whole, err := c.VerifyChainBlocks(3, 6)
	assert(reads("verifychain", whole, err), "verifychain")
	mining, err := c.GetMiningInfo()
	reads("getmininginfo", mining, err)
	rate, err := c.GetNetworkHashPS()
	reads("getnetworkhashps", rate, err)
	set, err := c.GetTxOutSetInfo()
	reads("gettxoutsetinfo", set, err)
	waitForIndexes(c)
	filter, err := c.GetBlockFilter(*tip, nil)
	reads("getblockfilter", filter, err)
	zmq, err := c.GetZmqNotifications()
	assert(len(reads("getzmqnotifications", zmq, err)) == 1, "%v", zmq)
	// Again what is there.
	err = c.SubmitBlock(btcutil.NewBlock(must(c.GetBlock(tip))), nil)
	assert(err != nil && strings.Contains(err.Error(), "duplicate"), "submitblock: %v", err)
}

func waitForIndexes(c *rpcclient.Client) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var indexes map[string]struct {
			Synced bool
			Height int64 `json:"best_block_height"`
		}
		assert(json.Unmarshal(must(c.RawRequest("getindexinfo", nil)), &indexes) == nil, "getindexinfo")
		behind := len(indexes) != 2
		for _, index := range indexes {
			behind = behind || !index.Synced || index.Height != must(c.GetBlockCount())
		}
		if !behind {
			return
		}
		assert(time.Now().Before(end), "the indexes are behind: %v", indexes)
	}
}

// transactions gives a coin that anyone may spend.
func transactions(c *rpcclient.Client) wire.OutPoint {
	coinbase := must(c.GetBlock(must(c.GetBlockHash(1)))).Transactions[0]
	txid := coinbase.TxHash()
	raw, err := c.GetRawTransaction(&txid)
	reads("getrawtransaction", raw, err)
	assert(*raw.Hash() == txid, "%v", raw)
	verbose, err := c.GetRawTransactionVerbose(&txid)
	reads("getrawtransaction", verbose, err)
	assert(verbose.Confirmations == 107, "%+v", verbose)
	decoded, err := c.DecodeRawTransaction(serialised(coinbase))
	reads("decoderawtransaction", decoded, err)
	script, err := c.DecodeScript([]byte{txscript.OP_TRUE})
	reads("decodescript", script, err)
	output, err := c.GetTxOut(&txid, 0, true)
	reads("gettxout", output, err)
	assert(output.Coinbase && output.Value == 50, "%+v", output)
	proof, err := c.GetTxOutProof([]string{txid.String()}, nil)
	reads("gettxoutproof", proof, err)
	return wire.OutPoint{Hash: txid, Index: 0}
}

func sending(c *rpcclient.Client, coin wire.OutPoint) {
	parent := spend(coin, 50e8)
	child := spend(wire.OutPoint{Hash: parent.TxHash()}, parent.TxOut[0].Value)
	tried, err := c.TestMempoolAccept([]*wire.MsgTx{parent}, 0.1)
	reads("testmempoolaccept", tried, err)
	assert(tried[0].Allowed, "%+v", tried[0])
	sent := must(c.SendRawTransaction(parent, false))
	assert(*sent == parent.TxHash(), "%v", sent)
	together, err := c.SubmitPackage([]*wire.MsgTx{parent, child}, nil, nil)
	reads("submitpackage", together, err)
	assert(err != nil || together.PackageMsg == "success", "%+v", together)
	spent, err := c.GetTxSpendingPrevOut([]wire.OutPoint{coin, {Hash: child.TxHash()}})
	reads("gettxspendingprevout", spent, err)
	assert(spent[0].SpendingTxid == parent.TxHash().String() && spent[1].SpendingTxid == "", "%+v", spent)
	pool := must(c.GetRawMempool())
	assert(len(pool) == 2, "%v", pool)
	verbose, err := c.GetRawMempoolVerbose()
	reads("getrawmempool", verbose, err)
	entry, err := c.GetMempoolEntry(parent.TxHash().String())
	reads("getmempoolentry", entry, err)
	_, err = c.GetMempoolEntry(coin.Hash.String())
	assert(err != nil && strings.HasPrefix(err.Error(), "-5"), "getmempoolentry: %v", err)
	mode := btcjson.EstimateModeConservative
	fee, err := c.EstimateSmartFee(6, &mode)
	reads("estimatesmartfee", fee, err)

	list := must(json.Marshal([]string{hex.EncodeToString(serialised(parent)), hex.EncodeToString(serialised(child))}))
	to := must(json.Marshal(somebody(3).String()))
	must(c.RawRequest("generateblock", []json.RawMessage{to, list}))
	block := must(c.GetBlock(must(c.GetBestBlockHash())))
	assert(len(block.Transactions) == 3, "%d", len(block.Transactions))
	assert(len(must(c.GetRawMempool())) == 0, "the outbox is empty")
	_, err = c.SendRawTransaction(child, false)
	assert(err != nil, "it is in a block")
	output := must(c.GetTxOut(&coin.Hash, 0, true))
	assert(output == nil, "it is spent: %+v", output)
}

func network(c *rpcclient.Client) {
	info, err := c.GetNetworkInfo()
	reads("getnetworkinfo", info, err)
	peers, err := c.GetPeerInfo()
	reads("getpeerinfo", peers, err)
	count, err := c.GetConnectionCount()
	assert(reads("getconnectioncount", count, err) == int64(len(peers)), "%d", count)
	totals, err := c.GetNetTotals()
	reads("getnettotals", totals, err)
	nodes, err := c.GetNodeAddresses(nil)
	reads("getnodeaddresses", nodes, err)
	works("ping", c.Ping())
	works("addnode", c.AddNode("127.0.0.1:1", rpcclient.ANAdd))
	works("addnode", c.AddNode("127.0.0.1:1", rpcclient.ANRemove))
}

func util(c *rpcclient.Client) {
	valid, err := c.ValidateAddress(anyone())
	assert(reads("validateaddress", valid, err).IsValid, "%+v", valid)
	info, err := c.GetDescriptorInfo("addr(" + anyone().String() + ")")
	reads("getdescriptorinfo", info, err)
	derived, err := c.DeriveAddresses(info.Descriptor, nil)
	assert((*reads("deriveaddresses", derived, err))[0] == anyone().String(), "%v", derived)
}

// batch asks for many at once, as lnd does.
func batch(config *rpcclient.ConnConfig, hashes []*chainhash.Hash) {
	config.HTTPPostMode = true
	c := must(rpcclient.NewBatch(config))
	defer c.Shutdown()
	var asked []rpcclient.FutureGetBlockHeaderVerboseResult
	for _, hash := range hashes {
		asked = append(asked, c.GetBlockHeaderVerboseAsync(hash))
	}
	works("a batch", c.Send())
	for i, answer := range asked {
		header, err := answer.Receive()
		works("a batch", err)
		assert(header.Hash == hashes[i].String(), "%+v", header)
	}
}
