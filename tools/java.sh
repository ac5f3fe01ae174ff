#!/bin/sh
# Finds Java 17 or newer; installs it with apt when root and absent; otherwise says what to run.
major() { "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }

for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java 2>/dev/null)" /usr/lib/jvm/*/bin/java; do
    if [ -n "$java" ] && [ -x "$java" ] && [ "$(major "$java")" -ge 17 ] 2>/dev/null; then
        exit 0
    fi
done

wanted="apt-get install -y openjdk-17-jre-headless"
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing Java 17 ..."
    apt-get update -qq
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1; then
            exit 0
        fi
    done
    echo "Java 17 or newer could not be installed. Run: $wanted" >&2
    exit 1
fi
echo "Headrace needs Java 17 or newer for Apache Spark, and found none. Run: sudo $wanted" >&2
exit 1
