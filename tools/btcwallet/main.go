// Command btcwallet follows a node by btcwallet's chain.BitcoindClient, as lnd does: the node is on regtest, and
// nobody else uses it. It ends with 0 when all was as expected.
//
//	btcwallet zmq PORT USER PASSWORD BLOCK-PORT TX-PORT
//	btcwallet polling PORT USER PASSWORD
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"
	"github.com/btcsuite/btcd/rpcclient"
	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"
	"github.com/btcsuite/btcwallet/chain"
	"github.com/btcsuite/btcwallet/waddrmgr"
	"github.com/btcsuite/btcwallet/wtxmgr"
)

// No notification takes longer.
const limit = 60 * time.Second

var params = &chaincfg.RegressionNetParams

// must ends the program.
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

// anyone is an output that takes a witness of one word, and no key.
func anyone() btcutil.Address {
	script := sha256.Sum256([]byte{txscript.OP_TRUE})
	return must(btcutil.NewAddressWitnessScriptHash(script[:], params))
}

// somebody has a key that nobody knows.
func somebody(number byte) btcutil.Address {
	return must(btcutil.NewAddressWitnessPubKeyHash(bytes.Repeat([]byte{number}, 20), params))
}

// node mines.
type node struct{ *rpcclient.Client }

func (n node) mine(count int64, to btcutil.Address) []*chainhash.Hash {
	return must(n.GenerateToAddress(count, to, nil))
}

func (n node) mineWith(tx *wire.MsgTx) chainhash.Hash {
	var raw bytes.Buffer
	assert(tx.Serialize(&raw) == nil, "serialised")
	list := must(json.Marshal([]string{hex.EncodeToString(raw.Bytes())}))
	to := must(json.Marshal(somebody(8).String()))
	var mined struct{ Hash string }
	answer := must(n.RawRequest("generateblock", []json.RawMessage{to, list}))
	assert(json.Unmarshal(answer, &mined) == nil, "%s", answer)
	return *must(chainhash.NewHashFromStr(mined.Hash))
}

func (n node) invalidate(hash *chainhash.Hash) {
	assert(n.InvalidateBlock(hash) == nil, "invalidateblock")
}

// reconsider brings a branch back; if it has more work, in one step.
func (n node) reconsider(hash *chainhash.Hash) {
	assert(n.ReconsiderBlock(hash) == nil, "reconsiderblock")
}

// spend pays a coinbase of anyone's to somebody, a thousand satoshi less.
func (n node) spend(height int64, to btcutil.Address) (*wire.MsgTx, wire.OutPoint) {
	block := must(n.GetBlock(must(n.GetBlockHash(height))))
	coinbase := block.Transactions[0]
	coin := wire.OutPoint{Hash: coinbase.TxHash(), Index: 0}
	tx := wire.NewMsgTx(2)
	input := wire.NewTxIn(&coin, nil, wire.TxWitness{{txscript.OP_TRUE}})
	tx.AddTxIn(input)
	tx.AddTxOut(wire.NewTxOut(coinbase.TxOut[0].Value-1000, must(txscript.PayToAddrScript(to))))
	return tx, coin
}

// follower is a client, and what it was told.
type follower struct {
	*chain.BitcoindClient
	heard []any
}

// until reads notifications until one of them is what is waited for.
func (f *follower) until(what string, is func(any) bool) {
	end := time.After(limit)
	for {
		select {
		case told := <-f.Notifications():
			f.heard = append(f.heard, told)
			if is(told) {
				return
			}
		case <-end:
			log.Panicf("not within %v: %s; heard %+v", limit, what, f.heard)
		}
	}
}

func (f *follower) untilConnected(hash chainhash.Hash) {
	f.until("block "+hash.String(), func(told any) bool {
		block, is := told.(chain.BlockConnected)
		return is && block.Hash == hash
	})
}

// untilRelevant waits for a transaction, in a block or before.
func (f *follower) untilRelevant(txid chainhash.Hash, mined bool) {
	f.until("transaction "+txid.String(), func(told any) bool {
		switch told := told.(type) {
		case chain.RelevantTx:
			return told.TxRecord.Hash == txid && (told.Block != nil) == mined
		case chain.FilteredBlockConnected:
			for _, relevant := range told.RelevantTxs {
				if mined && relevant.Hash == txid {
					return true
				}
			}
		}
		return false
	})
}

// chainMoves forgets what was heard, and gives the blocks of it.
func (f *follower) chainMoves() (left, came []chainhash.Hash) {
	for _, told := range f.heard {
		switch told := told.(type) {
		case chain.BlockDisconnected:
			left = append(left, told.Hash)
		case chain.BlockConnected:
			came = append(came, told.Hash)
		}
	}
	f.heard = nil
	return left, came
}

func same(heard []chainhash.Hash, mined []*chainhash.Hash) bool {
	if len(heard) != len(mined) {
		return false
	}
	for i := range heard {
		if heard[i] != *mined[i] {
			return false
		}
	}
	return true
}

func main() {
	mode, host, user, password := os.Args[1], "127.0.0.1:"+os.Args[2], os.Args[3], os.Args[4]
	n := node{must(rpcclient.New(&rpcclient.ConnConfig{
		Host: host, User: user, Pass: password, HTTPPostMode: true, DisableTLS: true,
	}, nil))}

	// Two branches from the same block: the longer one waits.
	base := n.mine(103, anyone())
	short := n.mine(3, somebody(1))
	n.invalidate(short[0])
	long := n.mine(4, somebody(2))
	n.invalidate(long[0])
	n.reconsider(short[0])
	assert(*must(n.GetBestBlockHash()) == *short[2], "the short branch is active")

	config := &chain.BitcoindConfig{ChainParams: params, Host: host, User: user, Pass: password}
	if mode == "zmq" {
		config.ZMQConfig = &chain.ZMQConfig{
			ZMQBlockHost:           "tcp://127.0.0.1:" + os.Args[5],
			ZMQTxHost:              "tcp://127.0.0.1:" + os.Args[6],
			ZMQReadDeadline:        5 * time.Second,
			MempoolPollingInterval: 100 * time.Millisecond,
		}
	} else {
		config.PollingConfig = &chain.PollingConfig{
			BlockPollingInterval: 100 * time.Millisecond,
			TxPollingInterval:    100 * time.Millisecond,
			RPCBatchSize:         10,
			RPCBatchInterval:     10 * time.Millisecond,
		}
	}
	connection := must(chain.NewBitcoindConn(config))
	assert(connection.Start() == nil, "the connection starts")
	defer connection.Stop()
	client := connection.NewBitcoindClient()
	assert(client.Start(context.Background()) == nil, "the client starts")
	defer client.Stop()
	f := &follower{BitcoindClient: client}
	own := somebody(9)
	assert(f.NotifyReceived([]btcutil.Address{own}) == nil, "addresses are watched")
	assert(f.IsCurrent(), "the chain is as late as the clock")

	// Three blocks are left for four.
	n.reconsider(long[0])
	f.untilConnected(*long[3])
	left, came := f.chainMoves()
	// Of deeper ones btcwallet 0.16.18 tells the right heights and the hashes of their parents
	// (bitcoind_client.go, reorg).
	assert(len(left) == 3 && left[0] == *short[2], "left %v, not %v", left, short)
	assert(same(came, long), "came %v, not %v", came, long)
	blocks := n.mine(5, somebody(3))
	f.untilConnected(*blocks[4])
	left, came = f.chainMoves()
	assert(left == nil && same(came, blocks), "left %v, came %v", left, came)

	followTransactions(n, f, mode, own)
	rescan(n, f, base, own)
	fmt.Println("btcwallet: all was as expected")
}

// followTransactions sends one and has it mined, twice.
func followTransactions(n node, f *follower, mode string, own btcutil.Address) {
	tx, coin := n.spend(1, own)
	tried := must(f.TestMempoolAccept([]*wire.MsgTx{tx}, 0.1))
	assert(tried[0].Allowed, "%+v", tried[0])
	txid := *must(f.SendRawTransaction(tx, false))
	assert(txid == tx.TxHash(), "%v", txid)
	if mode == "polling" {
		f.untilRelevant(txid, false)
	}
	spender, found := f.LookupInputMempoolSpend(coin)
	assert(found && spender == txid, "%v spends it", spender)
	assert(f.NotifySpent([]*wire.OutPoint{&coin}) == nil, "an output is watched")
	f.untilRelevant(txid, false)
	_, err := f.SendRawTransaction(tx, false)
	if err != nil {
		log.Printf("sent again: %v", f.MapRPCErr(err))
	}
	mined := n.mineWith(tx)
	f.untilRelevant(txid, true)
	f.chainMoves()
	// Its block is left; another one has it again.
	n.invalidate(&mined)
	first := n.mine(1, somebody(4))
	again := n.mineWith(tx)
	f.untilConnected(again)
	left, came := f.chainMoves()
	assert(len(left) == 1 && left[0] == mined, "left %v", left)
	// That its first block came may be told here or above.
	came = came[max(0, len(came)-2):]
	assert(same(came, []*chainhash.Hash{first[0], &again}), "came %v", came)
	output := must(f.GetTxOut(&txid, 0, false))
	assert(output != nil && output.Confirmations == 1, "%+v", output)
}

// rescan finds the payment in the chain as it is now.
func rescan(n node, f *follower, base []*chainhash.Hash, own btcutil.Address) {
	hash, height, err := f.GetBestBlock()
	assert(err == nil, "%v", err)
	request := &chain.FilterBlocksRequest{
		ExternalAddrs: map[waddrmgr.ScopedIndex]btcutil.Address{{Index: 7}: own},
	}
	for at := int64(100); at <= int64(height); at++ {
		hash := must(f.GetBlockHash(at))
		meta := wtxmgr.BlockMeta{Block: wtxmgr.Block{Hash: *hash, Height: int32(at)}}
		request.Blocks = append(request.Blocks, meta)
	}
	found := must(f.FilterBlocks(request))
	assert(found != nil && found.BlockMeta.Hash == *hash, "%+v", found)
	assert(len(found.RelevantTxns) == 1, "%d", len(found.RelevantTxns))

	f.heard = nil
	assert(f.Rescan(base[99], []btcutil.Address{own}, nil) == nil, "a rescan")
	txid := found.RelevantTxns[0].TxHash()
	seen := false
	f.until("the rescan's end", func(told any) bool {
		switch told := told.(type) {
		case chain.RelevantTx:
			seen = seen || told.TxRecord.Hash == txid && told.Block != nil
		case chain.FilteredBlockConnected:
			for _, relevant := range told.RelevantTxs {
				seen = seen || relevant.Hash == txid
			}
		case *chain.RescanFinished:
			return true
		}
		return false
	})
	assert(seen, "the rescan finds the payment")
}
