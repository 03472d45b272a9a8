//! How to read arguments of methods that godwit does not have, for servers that have them, above all for
//! wallets; and which arguments of godwit's own methods are always text. Each entry is a position, a form
//! (`j` JSON, `s` text, `e` either) and a name.

pub(super) const FOREIGN: &[(&str, &str)] = &[
    ("addconnection", "2jv2transport"),
    ("addpeeraddress", "1jport 2jtried"),
    ("analyzepsbt", "0spsbt"),
    ("backupwallet", "0sdestination"),
    (
        "bumpfee",
        "1jconf_target 1jfee_rate 1joptions 1joriginal_change_index 1joutputs 1jreplaceable",
    ),
    ("combinepsbt", "0jtxs"),
    ("combinerawtransaction", "0jtxs"),
    ("converttopsbt", "1jpermitsigdata 2jiswitness 3jpsbt_version"),
    ("createmultisig", "0jnrequired 1jkeys"),
    ("createpsbt", "0jinputs 1joutputs 2jlocktime 3jreplaceable 4jversion 5jpsbt_version"),
    ("createrawtransaction", "0jinputs 1joutputs 2jlocktime 3jreplaceable 4jversion"),
    (
        "createwallet",
        "0swallet_name 1jdisable_private_keys 2jblank 3spassphrase 4javoid_reuse \
         5jdescriptors 6jload_on_startup 7jexternal_signer",
    ),
    ("createwalletdescriptor", "1jinternal 1joptions"),
    ("decodepsbt", "0spsbt"),
    ("descriptorprocesspsbt", "0spsbt 1jdescriptors 2ssighashtype 3jbip32derivs 4jfinalize"),
    // Only the arguments that may contain `=`; the others are in the table.
    ("dumptxoutset", "0spath 1stype"),
    ("echoipc", "0sarg"),
    ("encryptwallet", "0spassphrase"),
    ("estimaterawfee", "0jconf_target 1jthreshold"),
    ("finalizepsbt", "0spsbt 1jextract"),
    (
        "fundrawtransaction",
        "1jadd_inputs 1jchangePosition 1jconf_target 1jfeeRate 1jfee_rate 1jincludeWatching \
         1jinclude_unsafe 1jinput_weights 1jlockUnspents 1jmax_tx_weight 1jmaxconf 1jminconf \
         1joptions 1jreplaceable 1jsolving_data 1jsubtractFeeFromOutputs 2jiswitness",
    ),
    ("getaddressesbylabel", "0slabel"),
    ("getbalance", "1jminconf 2jinclude_watchonly 3javoid_reuse"),
    ("getblocktemplate", "0jtemplate_request"),
    ("gethdkeys", "0jactive_only 0joptions 0jprivate"),
    ("getmempoolancestors", "1jverbose"),
    ("getmempooldescendants", "1jverbose"),
    ("getnewaddress", "0slabel 1saddress_type"),
    ("getorphantxs", "0jverbosity"),
    ("getreceivedbyaddress", "1jminconf 2jinclude_immature_coinbase"),
    ("getreceivedbylabel", "0slabel 1jminconf 2jinclude_immature_coinbase"),
    ("gettransaction", "1jinclude_watchonly 2jverbose"),
    ("gettxoutsetinfo", "1ehash_or_height 2juse_index"),
    ("importdescriptors", "0jrequests"),
    (
        "importmempool",
        "0sfilepath 1japply_fee_delta_priority 1japply_unbroadcast_set 1joptions \
         1juse_current_time",
    ),
    ("joinpsbts", "0jtxs"),
    ("keypoolrefill", "0jnewsize"),
    ("listdescriptors", "0jprivate"),
    (
        "listreceivedbyaddress",
        "0jminconf 1jinclude_empty 2jinclude_watchonly 4jinclude_immature_coinbase",
    ),
    (
        "listreceivedbylabel",
        "0jminconf 1jinclude_empty 2jinclude_watchonly 3jinclude_immature_coinbase",
    ),
    (
        "listsinceblock",
        "0sblockhash 1jtarget_confirmations 2jinclude_watchonly 3jinclude_removed \
         4jinclude_change 5slabel",
    ),
    ("listtransactions", "0slabel 1jcount 2jskip 3jinclude_watchonly"),
    (
        "listunspent",
        "0jminconf 1jmaxconf 2jaddresses 3jinclude_unsafe 4jinclude_immature_coinbase \
         4jmaximumAmount 4jmaximumCount 4jminimumAmount 4jminimumSumAmount 4jquery_options",
    ),
    ("loadtxoutset", "0spath"),
    ("loadwallet", "0sfilename 1jload_on_startup"),
    ("logging", "0jinclude 1jexclude"),
    ("lockunspent", "0junlock 1jtransactions 2jpersistent"),
    ("migratewallet", "0swallet_name 1spassphrase 2jload_wallet"),
    ("mockscheduler", "0jdelta_time"),
    ("prioritisetransaction", "1jdummy 2jfee_delta"),
    (
        "psbtbumpfee",
        "1jconf_target 1jfee_rate 1joptions 1joriginal_change_index 1joutputs 1jpsbt_version \
         1jreplaceable",
    ),
    ("rescanblockchain", "0jstart_height 1jstop_height"),
    ("restorewallet", "0swallet_name 1sbackup_file 2jload_on_startup"),
    ("scantxoutset", "1jscanobjects"),
    (
        "send",
        "0joutputs 1jconf_target 3jfee_rate 4jadd_inputs 4jadd_to_wallet 4jchange_position \
         4jconf_target 4jfee_rate 4jinclude_unsafe 4jinclude_watching 4jinputs \
         4jlock_unspents 4jlocktime 4jmax_tx_weight 4jmaxconf 4jminconf 4joptions 4jpsbt \
         4jreplaceable 4jsolving_data 4jsubtract_fee_from_outputs 5jversion",
    ),
    (
        "sendall",
        "0jrecipients 1jconf_target 3jfee_rate 4jadd_to_wallet 4jconf_target 4jfee_rate \
         4jinclude_watching 4jinputs 4jlock_unspents 4jlocktime 4jmaxconf 4jminconf 4joptions \
         4jpsbt 4jreplaceable 4jsend_max 4jsolving_data 4jversion",
    ),
    (
        "sendmany",
        "0sdummy 1jamounts 2jminconf 3scomment 4jsubtractfeefrom 5jreplaceable 6jconf_target 7sestimate_mode 8jfee_rate \
         9jverbose",
    ),
    ("sendmsgtopeer", "0jpeer_id"),
    ("sendrawtransaction", "1jmaxfeerate 2jmaxburnamount"),
    (
        "sendtoaddress",
        "0saddress 1jamount 2scomment 3scomment_to 4jsubtractfeefromamount 5jreplaceable 6jconf_target 7sestimate_mode \
         8javoid_reuse 9jfee_rate 10jverbose",
    ),
    ("setban", "2jbantime 3jabsolute"),
    ("setlabel", "1slabel"),
    ("setmocktime", "0jtimestamp"),
    ("setwalletflag", "1jvalue"),
    ("signmessage", "1smessage"),
    ("signmessagewithprivkey", "1smessage"),
    ("signrawtransactionwithkey", "1jprivkeys 2jprevtxs"),
    ("signrawtransactionwithwallet", "1jprevtxs"),
    ("simulaterawtransaction", "0jrawtxs 1jinclude_watchonly 1joptions"),
    ("submitpackage", "0jpackage 1jmaxfeerate 2jmaxburnamount"),
    ("testmempoolaccept", "0jrawtxs 1jmaxfeerate"),
    ("unloadwallet", "0swallet_name 1jload_on_startup"),
    ("utxoupdatepsbt", "0spsbt 1jdescriptors"),
    ("verifymessage", "1ssignature 2smessage"),
    (
        "walletcreatefundedpsbt",
        "0jinputs 1joutputs 2jlocktime 3jadd_inputs 3jchangePosition 3jconf_target 3jfeeRate \
         3jfee_rate 3jincludeWatching 3jinclude_unsafe 3jlockUnspents 3jmax_tx_weight \
         3jmaxconf 3jminconf 3joptions 3jreplaceable 3jsolving_data 3jsubtractFeeFromOutputs \
         4jbip32derivs 5jversion 6jpsbt_version",
    ),
    ("walletpassphrase", "0spassphrase 1jtimeout"),
    ("walletpassphrasechange", "0soldpassphrase 1snewpassphrase"),
    ("walletprocesspsbt", "0spsbt 1jsign 2ssighashtype 3jbip32derivs 4jfinalize"),
];
