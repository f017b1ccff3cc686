#!/usr/bin/env bash
# The compiler of ziglang 0.17.0 (Clang 22.1.8), for iOS and macOS: the flags that Clang and Xcode
# have for the oldest system that code is for, -mios-version-min= and -mmacosx-version-min=, are
# taken without a word and change nothing. Objects say (LC_BUILD_VERSION) what Zig chose: iOS 18.0,
# macOS 15.0. The version is heard behind the name of the system in the target alone, as in
# aarch64-ios.13.0.
#
# Guesses that miss: a flag that a driver does not use is an error or a warning; without a flag the
# oldest version that Zig supports is the one that it writes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ziglang==0.17.0
echo 'int answer(void) { return 42; }' > "$folder/answer.c"
cat > "$folder/least.py" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
magic, _, _, _, count = struct.unpack_from("<5I", data)
assert magic == 0xFEEDFACF
place = 32
for _ in range(count):
    command, size = struct.unpack_from("<2I", data, place)
    if command == 0x32:  # LC_BUILD_VERSION
        platform, least = struct.unpack_from("<2I", data, place + 8)
        print({1: "macOS", 2: "iOS"}[platform], f"{least >> 16}.{least >> 8 & 255}")
    place += size
PY
said() {
  "$folder/venv/bin/python" -m ziglang cc "$@" -c "$folder/answer.c" -o "$folder/answer.o" 2> "$folder/words"
  test ! -s "$folder/words"
  "$folder/venv/bin/python" "$folder/least.py" "$folder/answer.o"
}
same() { echo "$1: $2"; test "$2" = "$3"; }
same "aarch64-ios" "$(said -target aarch64-ios)" "iOS 18.0"
same "aarch64-ios -mios-version-min=13.0" "$(said -target aarch64-ios -mios-version-min=13.0)" "iOS 18.0"
same "aarch64-ios.13.0" "$(said -target aarch64-ios.13.0)" "iOS 13.0"
same "aarch64-macos" "$(said -target aarch64-macos)" "macOS 15.0"
same "aarch64-macos -mmacosx-version-min=11.0" \
  "$(said -target aarch64-macos -mmacosx-version-min=11.0)" "macOS 15.0"
same "aarch64-macos.11.0" "$(said -target aarch64-macos.11.0)" "macOS 11.0"
