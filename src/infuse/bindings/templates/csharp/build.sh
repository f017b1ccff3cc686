#!/bin/sh
# With Mono: bin/@NAME@.dll, the library of native code and the example. With .NET: dotnet build @NAME@.csproj
set -e
cd "$(dirname "$0")"
mkdir -p bin
mcs -unsafe -warnaserror -langversion:7.2 -target:library -out:bin/@NAME@.dll src/*.cs
mcs -warnaserror -r:bin/@NAME@.dll -out:bin/example.exe example/Example.cs
cp runtimes/@RUNTIME@/native/@LIBRARY@ bin/
