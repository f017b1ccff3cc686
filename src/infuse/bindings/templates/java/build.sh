#!/bin/sh
# Makes @NAME@.jar, for Java 11 and newer; made by javac 22 or newer, it calls the library by the foreign function interface
# where Java has that (22 and newer), else by JNI.
set -e
cd "$(dirname "$0")"
JAVAC="${JAVA_HOME:+$JAVA_HOME/bin/}javac" JAR="${JAVA_HOME:+$JAVA_HOME/bin/}jar"
rm -rf build
mkdir -p build/classes build/classes22
"$JAVAC" --release 11 -Xlint:all -d build/classes src/main/java/@NAME@/*.java
version=$("$JAVAC" -version 2>&1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')
if [ "$version" -ge 22 ]; then
  "$JAVAC" --release 22 -cp build/classes -d build/classes22 src/main/java22/@NAME@/*.java
  set -- --release 22 -C build/classes22 .
fi
"$JAR" --create --file @NAME@.jar -C build/classes . -C src/main/resources . "$@"
