#!/bin/sh
# Runs the compiler that the arguments name, with -O1 in place of -O3.
for argument in "$@"; do
    shift
    [ "$argument" != -O3 ] || argument=-O1
    set -- "$@" "$argument"
done
exec "$@"
