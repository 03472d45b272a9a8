// btcd's psbt behind the questions of serve.js.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/btcutil/psbt"
	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"
)

// A PSBT of the limits of this project has lines of some megabytes.
const longestLine = 64 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		fields, err := answer(strings.Split(lines.Text(), "\t"))
		if err != nil {
			fields = []string{"no", strings.Join(strings.Fields(err.Error()), " ")}
		} else {
			fields = append([]string{"ok"}, fields...)
		}
		fmt.Println(strings.Join(fields, "\t"))
	}
}

func answer(question []string) (fields []string, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	packet, err := psbt.NewFromRawBytes(strings.NewReader(question[1]), true)
	if err != nil {
		return nil, err
	}
	switch question[0] {
	case "read":
		var transaction bytes.Buffer
		if err := packet.UnsignedTx.SerializeNoWitness(&transaction); err != nil {
			return nil, err
		}
		text, err := packet.B64Encode()
		return []string{hex.EncodeToString(transaction.Bytes()), text}, err
	case "sign":
		for _, text := range strings.Split(question[2], ",") {
			secret, err := hex.DecodeString(text)
			if err != nil {
				return nil, err
			}
			key, _ := btcec.PrivKeyFromBytes(secret)
			if err := sign(packet, key); err != nil {
				return nil, err
			}
		}
		text, err := packet.B64Encode()
		return []string{text}, err
	case "finish":
		if err := psbt.MaybeFinalizeAll(packet); err != nil {
			return nil, err
		}
		final, err := psbt.Extract(packet)
		if err != nil {
			return nil, err
		}
		var transaction bytes.Buffer
		err = final.Serialize(&transaction)
		return []string{hex.EncodeToString(transaction.Bytes())}, err
	}
	return nil, errors.New("no such question")
}

func spent(packet *psbt.Packet, index int) *wire.TxOut {
	if output := packet.Inputs[index].WitnessUtxo; output != nil {
		return output
	}
	place := packet.UnsignedTx.TxIn[index].PreviousOutPoint.Index
	return packet.Inputs[index].NonWitnessUtxo.TxOut[place]
}

func sign(packet *psbt.Packet, key *btcec.PrivateKey) error {
	outputs := txscript.NewMultiPrevOutFetcher(nil)
	for index, input := range packet.UnsignedTx.TxIn {
		outputs.AddPrevOut(input.PreviousOutPoint, spent(packet, index))
	}
	hashes := txscript.NewTxSigHashes(packet.UnsignedTx, outputs)
	for index := range packet.Inputs {
		if err := signInput(packet, index, key, hashes); err != nil {
			return err
		}
	}
	return nil
}

func signInput(packet *psbt.Packet, index int, key *btcec.PrivateKey, hashes *txscript.TxSigHashes) error {
	input, output := &packet.Inputs[index], spent(packet, index)
	if txscript.IsPayToTaproot(output.PkScript) {
		return signTaproot(packet, index, key, hashes)
	}
	public := key.PubKey().SerializeCompressed()
	isOurs := false
	for _, source := range input.Bip32Derivation {
		isOurs = isOurs || bytes.Equal(source.PubKey, public)
	}
	if !isOurs {
		return nil
	}
	kind := input.SighashType
	if kind == 0 {
		kind = txscript.SigHashAll
	}
	script := output.PkScript
	if input.RedeemScript != nil {
		script = input.RedeemScript
	}
	isWitness := txscript.IsWitnessProgram(script)
	if input.WitnessScript != nil {
		script = input.WitnessScript
	}
	var signature []byte
	var err error
	if isWitness {
		signature, err = txscript.RawTxInWitnessSignature(
			packet.UnsignedTx, hashes, index, output.Value, script, kind, key)
	} else {
		signature, err = txscript.RawTxInSignature(packet.UnsignedTx, index, script, kind, key)
	}
	if err != nil {
		return err
	}
	updater, err := psbt.NewUpdater(packet)
	if err != nil {
		return err
	}
	_, err = updater.Sign(index, signature, public, nil, nil)
	return err
}

func signTaproot(packet *psbt.Packet, index int, key *btcec.PrivateKey, hashes *txscript.TxSigHashes) error {
	input, output := &packet.Inputs[index], spent(packet, index)
	public := schnorr.SerializePubKey(key.PubKey())
	if bytes.Equal(input.TaprootInternalKey, public) {
		signature, err := txscript.RawTxInTaprootSignature(
			packet.UnsignedTx, hashes, index, output.Value, output.PkScript,
			input.TaprootMerkleRoot, input.SighashType, key)
		input.TaprootKeySpendSig = signature
		return err
	}
	for _, source := range input.TaprootBip32Derivation {
		if !bytes.Equal(source.XOnlyPubKey, public) {
			continue
		}
		for _, leaf := range input.TaprootLeafScript {
			tapLeaf := txscript.NewTapLeaf(leaf.LeafVersion, leaf.Script)
			hash := tapLeaf.TapHash()
			isIn := false
			for _, other := range source.LeafHashes {
				isIn = isIn || bytes.Equal(other, hash[:])
			}
			if !isIn {
				continue
			}
			signature, err := txscript.RawTxInTapscriptSignature(
				packet.UnsignedTx, hashes, index, output.Value, output.PkScript, tapLeaf, input.SighashType, key)
			if err != nil {
				return err
			}
			input.TaprootScriptSpendSig = append(input.TaprootScriptSpendSig, &psbt.TaprootScriptSpendSig{
				XOnlyPubKey: public,
				LeafHash:    hash[:],
				Signature:   signature[:schnorr.SignatureSize],
				SigHash:     input.SighashType,
			})
		}
	}
	return nil
}
