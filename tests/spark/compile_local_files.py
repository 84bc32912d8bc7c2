"""Makes a jar of `LocalFiles.java`, with Spark's own compiler: `compile_local_files.py JAR`."""

import sys
import zipfile
from pathlib import Path

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

SOURCE = Path(__file__).with_name("LocalFiles.java")
SETTINGS = """\
<configuration>
  <property><name>fs.file.impl</name><value>quick.LocalFiles</value></property>
  <property><name>fs.AbstractFileSystem.file.impl</name><value>quick.LocalFiles$OfContext</value></property>
</configuration>
"""

gateway = launch_gateway(SparkConf())
java = gateway.jvm
compiler = java.org.codehaus.janino.SimpleCompiler()
compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
compiler.cook(SOURCE.read_text())
classes = compiler.getBytecodes()
with zipfile.ZipFile(sys.argv[1], "w") as jar:
    jar.writestr("core-site.xml", SETTINGS)
    for name in classes:
        jar.writestr(name.replace(".", "/") + ".class", bytes(classes[name]))
gateway.shutdown()
