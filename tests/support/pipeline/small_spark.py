"""What makes Spark small and quick: for tests."""

SMALL = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
# Code that Spark compiles for each query takes longer to compile than tests of a few records take without. Commands
# that tests start in processes of their own run as users run them.
PLAIN = SMALL | {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
