# Completion of godwit for bash. Made of the table of options: cargo xtask contrib
_godwit() {
    local current="${COMP_LINE:0:COMP_POINT}"
    current="${current##* }"
    COMPREPLY=()
    case "$current" in
        -conf=*|-datadir=*|-asmap=*|-rpccookiefile=*|-verdicts=*|-to=*)
            COMPREPLY=($(compgen -f -- "${current#*=}"))
            return ;;
        -*=*)
            return ;;
        -*)
            COMPREPLY=($(compgen -W "-help -version -conf= -allowignoredconf -datadir= -memory= -dbcache= -allowunlockedsecrets -chain= -testnet -testnet4 -signet -regtest -signetchallenge= -par= -assumevalid= -scriptengine= -crosscheck= -stopatheight= -prune= -reindex -reindex-chainstate -scrub -txindex -blockfilterindex -coinstatsindex -peerblockfilters -networkactive -listen -bind= -port= -maxconnections= -connect= -addnode= -seednode= -dnsseed -fixedseeds -proxy= -onion= -listenonion -torcontrol= -torpassword= -onlynet= -asmap= -v2transport -externalip= -discover -natpmp -whitelist= -whitebind= -maxuploadtarget= -maxdownloadrate= -server -rpcport= -rpcbind= -rpcallowip= -rpcauth= -rpcuser= -rpcpassword= -rpccookiefile= -rpccookieperms= -rpcwhitelist= -rpcwhitelistdefault -rest -deprecatedrpc= -rpcthreads= -rpcworkqueue= -rpcservertimeout= -web -metrics -json -zmqpubhashblock= -zmqpubhashtx= -zmqpubrawblock= -zmqpubrawtx= -zmqpubsequence= -zmqpubhashblockhwm= -zmqpubhashtxhwm= -zmqpubrawblockhwm= -zmqpubrawtxhwm= -zmqpubsequencehwm= -verdicts= -utxohash= -repair -audit -to= -handedover -testactivationheight= -lanes= -flushinterval= -test= -minimumchainwork=" -- "$current"))
            [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
            return ;;
    esac
    local before="${COMP_LINE:0:COMP_POINT}" typed="" option="" word words
    local paths=" -conf -datadir -asmap -rpccookiefile -verdicts -to"
    local others=" -memory -dbcache -chain -signetchallenge -par -assumevalid -scriptengine -crosscheck -stopatheight -prune -bind -port -maxconnections -connect -addnode -seednode -proxy -onion -torcontrol -torpassword -onlynet -externalip -whitelist -whitebind -maxuploadtarget -maxdownloadrate -rpcport -rpcbind -rpcallowip -rpcauth -rpcuser -rpcpassword -rpccookieperms -rpcwhitelist -deprecatedrpc -rpcthreads -rpcworkqueue -rpcservertimeout -zmqpubhashblock -zmqpubhashtx -zmqpubrawblock -zmqpubrawtx -zmqpubsequence -zmqpubhashblockhwm -zmqpubhashtxhwm -zmqpubrawblockhwm -zmqpubrawtxhwm -zmqpubsequencehwm -utxohash -testactivationheight -lanes -flushinterval -test -minimumchainwork "
    read -ra words <<< "${before% *}"
    for word in "${words[@]:1}"; do
        if [[ $word == -* ]]; then
            option="${word/#--/-}"
            continue
        fi
        [[ $paths$others == *" $option "* ]] || typed+="$word "
        option=""
    done
    if [[ "$paths " == *" $option "* ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
        return
    fi
    [[ $others == *" $option "* ]] && return
    case "$typed" in
        "")
            COMPREPLY=($(compgen -W "import utxo verify hand-over status" -- "$current")) ;;
        "utxo ")
            COMPREPLY=($(compgen -W "stats dump load" -- "$current")) ;;
        *)
            COMPREPLY=($(compgen -f -- "$current")) ;;
    esac
}
complete -o filenames -F _godwit godwit
