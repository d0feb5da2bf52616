# texts.sh FOLDER NAME VERSION COMMAND ...: writes into FOLDER the manual page of a program, NAME.1, and what shells
# complete: NAME.bash, _NAME (zsh) and NAME.fish. All are made from what COMMAND --help prints.
set -e
folder=$1 name=$2 version=$3 here=$(dirname "$0")
shift 3
help=$("$@" --help)
printf '%s\n' "$help" | awk -v name="$name" -v version="$version" -f "$here/man.awk" > "$folder/$name.1"
completes() { printf '%s\n' "$help" | awk -v shell="$1" -v name="$name" -f "$here/complete.awk" > "$folder/$2"; }
completes bash "$name.bash"
completes zsh "_$name"
completes fish "$name.fish"
