# Completion of godwit-cli for bash. Made of the table of options: cargo xtask contrib
_godwit_cli() {
    local current="${COMP_LINE:0:COMP_POINT}"
    current="${current##* }"
    COMPREPLY=()
    case "$current" in
        -datadir=*|-conf=*|-rpccookiefile=*)
            COMPREPLY=($(compgen -f -- "${current#*=}"))
            return ;;
        -*=*)
            return ;;
        -*)
            COMPREPLY=($(compgen -W "-help -version -datadir= -conf= -chain= -testnet -testnet4 -signet -regtest -rpcconnect= -rpcport= -rpcuser= -rpcpassword= -rpccookiefile= -rpcclienttimeout= -rpcwait -rpcwaittimeout= -rpcwallet= -rpcid= -named -stdin -stdinrpcpass -stdinwalletpassphrase -getinfo -netinfo -addrinfo -generate -color= -ipcconnect= -signetchallenge= -signetseednode= -vbparams= -testactivationheight=" -- "$current"))
            [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
            return ;;
    esac
    COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _godwit_cli godwit-cli
