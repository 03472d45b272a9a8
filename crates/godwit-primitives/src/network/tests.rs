use godwit_testdata::shared_file;
use serde_json::Value;

use super::*;
use crate::work::{compact_target, expand_target};

fn hash_text(hash: Option<BlockHash>) -> String {
    hash.map_or_else(String::new, |hash| hash.to_string())
}

fn reversed_hex(bytes: [u8; 32]) -> String {
    BlockHash::from_bytes(bytes).to_string()
}

/// The 64 digits of a number; "" in the JSON file means zero.
fn number_text(value: U256) -> String {
    if value == U256::ZERO { String::new() } else { hex::encode(value.to_be_bytes()) }
}

fn check_rules(p: &Params, json: &Value) {
    let number = |name: &str| json[name].as_u64().unwrap();
    assert_eq!(u64::from(p.subsidy_halving_interval), number("nSubsidyHalvingInterval"));
    assert_eq!(u64::from(p.bip34_height), number("BIP34Height"));
    assert_eq!(hash_text(p.bip34_hash), json["BIP34Hash"]);
    assert_eq!(u64::from(p.bip65_height), number("BIP65Height"));
    assert_eq!(u64::from(p.bip66_height), number("BIP66Height"));
    assert_eq!(u64::from(p.csv_height), number("CSVHeight"));
    assert_eq!(u64::from(p.segwit_height), number("SegwitHeight"));
    assert_eq!(u64::from(p.pow_target_timespan), number("nPowTargetTimespan"));
    assert_eq!(u64::from(p.pow_target_spacing), number("nPowTargetSpacing"));
    assert_eq!(p.allow_min_difficulty, json["fPowAllowMinDifficultyBlocks"]);
    // Regtest's is an option; off unless asked for.
    assert_eq!(p.enforce_bip94, json["enforce_BIP94"].as_bool().unwrap_or(false));
    assert_eq!(p.no_retargeting, json["fPowNoRetargeting"]);
    assert_eq!(p.signet_challenge.is_some(), json["signet_blocks"].as_bool().unwrap());
    let challenge = p.signet_challenge.as_deref().map(hex::encode);
    assert_eq!(challenge.as_deref(), json["signet_challenge"].as_str());
    assert_eq!(hex::encode(p.pow_limit.to_be_bytes()), json["powLimit"]);
    assert_eq!(number_text(p.minimum_chain_work), json["nMinimumChainWork"]);
    assert_eq!(hash_text(p.assume_valid), json["defaultAssumeValid"]["hash"]);

    let exceptions = json["script_flag_exceptions"].as_array().unwrap();
    assert_eq!(p.script_flag_exceptions.len(), exceptions.len());
    for ((hash, flags), entry) in p.script_flag_exceptions.iter().zip(exceptions) {
        assert_eq!(hash.to_string(), entry["block"]);
        let expected = match entry["flags"].as_str().unwrap() {
            "SCRIPT_VERIFY_NONE" => ScriptFlags::NONE,
            "SCRIPT_VERIFY_P2SH | SCRIPT_VERIFY_WITNESS" => {
                ScriptFlags::P2SH | ScriptFlags::WITNESS
            }
            other => panic!("{other}"),
        };
        assert_eq!(*flags, expected);
    }
}

fn check_network(p: &Params, json: &Value) {
    assert_eq!(hex::encode(p.magic), json["message_start"]);
    assert_eq!(u64::from(p.default_port), json["default_port"]);
    let genesis = &json["genesis"];
    assert_eq!(u64::from(p.genesis.time), genesis["time"]);
    assert_eq!(u64::from(p.genesis.nonce), genesis["nonce"]);
    assert_eq!(format!("{:08x}", p.genesis.bits), genesis["bits"]);
    assert_eq!(p.genesis.version, genesis["version"]);
    assert_eq!(p.genesis_hash.to_string(), genesis["hash"]);
    assert_eq!(p.genesis.merkle_root.to_string(), genesis["merkle_root"]);
    let sync = &json["headers_sync_params"];
    assert_eq!(u64::from(p.headers_sync.commitment_period), sync["commitment_period"]);
    assert_eq!(u64::from(p.headers_sync.redownload_buffer_size), sync["redownload_buffer_size"]);
    assert_eq!(p.chain_tx_data.time, json["chain_tx_data"]["time"]);
    assert_eq!(p.chain_tx_data.tx_count, json["chain_tx_data"]["tx_count"]);
    assert_eq!(p.chain_tx_data.tx_rate, json["chain_tx_data"]["tx_rate"]);

    let snapshots = json["assumeutxo"].as_array().unwrap();
    assert_eq!(p.assumeutxo.len(), snapshots.len());
    for (snapshot, entry) in p.assumeutxo.iter().zip(snapshots) {
        assert_eq!(u64::from(snapshot.height), entry["height"]);
        assert_eq!(reversed_hex(snapshot.hash_serialized), entry["hash_serialized"]);
        assert_eq!(snapshot.chain_tx_count, entry["chain_tx_count"]);
        assert_eq!(snapshot.blockhash.to_string(), entry["blockhash"]);
    }
}

#[test]
fn constants_equal_those_of_core() {
    let Some(text) = shared_file("facts/chainparams.json") else { return };
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json.as_object().unwrap().len(), Network::ALL.len());
    for network in Network::ALL {
        let name = if network == Network::Testnet3 { "testnet3" } else { network.name() };
        let params = Params::new(network);
        assert_eq!(params.network, network);
        check_rules(&params, &json[name]);
        check_network(&params, &json[name]);
        println!("{name}: equal");
    }
}

#[test]
fn genesis_blocks_hash_to_their_names() {
    for network in Network::ALL {
        let params = Params::new(network);
        let block = params.genesis_block();
        assert_eq!(params.genesis.block_hash(), params.genesis_hash);
        assert_eq!(block[..80], params.genesis.to_bytes());
        assert_eq!(block[80], 1);
        // With one transaction its txid is the merkle root.
        assert_eq!(sha256d(&block[81..]), params.genesis.merkle_root.to_bytes());
    }
    assert_eq!(Params::new(Network::Main).genesis_block().len(), 285);
}

#[test]
fn default_signet_magic_follows_from_its_challenge() {
    let default = Params::new(Network::Signet);
    assert_eq!(signet_magic(default.signet_challenge.as_deref().unwrap()), default.magic);
}

#[test]
fn custom_signet_keeps_the_rules_and_forgets_the_chain() {
    // A challenge longer than 252 bytes has a three-byte length.
    let challenge = vec![0x51; 300];
    let custom = Params::with_signet_challenge(challenge.clone());
    let mut serialised = vec![0xfd, 0x2c, 0x01];
    serialised.extend(&challenge);
    assert_eq!(custom.magic, sha256d(&serialised)[..4]);
    assert_eq!(custom.signet_challenge.as_deref(), Some(&challenge[..]));
    assert_eq!(custom.minimum_chain_work, U256::ZERO);
    assert_eq!(custom.assume_valid, None);
    let default = Params::new(Network::Signet);
    assert_eq!(custom.genesis_hash, default.genesis_hash);
    assert_eq!(custom.assumeutxo, default.assumeutxo);
}

#[test]
fn activation_heights_move_one_deployment_each() {
    for moved in Deployment::ALL {
        let mut params = Params::new(Network::Regtest);
        params.set_activation_height(moved, 7);
        for deployment in Deployment::ALL {
            assert_eq!(params.is_active(deployment, 6), deployment != moved, "{deployment:?}");
            assert!(params.is_active(deployment, 7), "{deployment:?}");
        }
    }
}

#[test]
fn names_round_trip_and_others_are_refused() {
    for network in Network::ALL {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
    for deployment in Deployment::ALL {
        assert_eq!(deployment.name().parse(), Ok(deployment));
    }
    assert_eq!("mainnet".parse::<Network>(), Err(UnknownName));
    assert_eq!("taproot".parse::<Deployment>(), Err(UnknownName));
}

/// Core's `pow_tests.cpp`, `sanity_check_chainparams`.
#[test]
fn parameters_are_consistent() {
    for network in Network::ALL {
        let params = Params::new(network);
        assert_eq!(params.pow_target_timespan % params.pow_target_spacing, 0);
        let genesis = expand_target(params.genesis.bits);
        assert!(!genesis.negative && !genesis.overflow && genesis.target != U256::ZERO);
        assert!(params.pow_limit >= genesis.target);
        assert_eq!(compact_target(params.pow_limit), params.genesis.bits);
        // The retarget's product fits 256 bits.
        if !params.no_retargeting {
            let longest = U256::from(params.pow_target_timespan) * U256::new(4);
            assert!(params.pow_limit < U256::MAX / longest);
        }
    }
}
