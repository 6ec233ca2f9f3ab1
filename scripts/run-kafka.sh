# The broker of `scripts/run --kafka`. Sourced by scripts/run, never run.
# shellcheck shell=bash disable=SC2154  # scripts/run sets DIR and STOPPING

KAFKA_PORT=
KAFKA_CONTROLLER_PORT=
KAFKA_PID=
KAFKA_JARS=
KAFKA_LOG=
KAFKA_TOPIC=cnt-update

# kafka_java CLASS ARG ...: a Java program with the jars of Kafka. SIGTERM goes to the program itself.
kafka_java() { java -Xmx512m -cp "$KAFKA_JARS/*" "$@"; }

# One node that is broker and controller. Its files are beside those of Redis: positions in Redis are offsets in its topic.
write_kafka_properties() {
    mkdir -p "$DIR/kafka"
    cat >"$DIR/kafka/server.properties" <<END
# Written by scripts/run; changes here are lost at the next start.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$KAFKA_CONTROLLER_PORT
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT,CONTROLLER://127.0.0.1:$KAFKA_CONTROLLER_PORT
log.dirs=$DIR/kafka/data
log.cleaner.dedupe.buffer.size=8388608
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
END
}

kafka_is_up() { [[ -n $KAFKA_PID ]] && kill -0 "$KAFKA_PID" 2>/dev/null; }

# start_kafka: starts the broker and creates the topic, if it does not exist. countd reads the address from the environment.
start_kafka() {
    local storage=$DIR/kafka/storage.log
    KAFKA_LOG=$DIR/kafka/broker.log
    choose_port KAFKA_PORT 9092
    choose_port KAFKA_CONTROLLER_PORT $((KAFKA_PORT + 1))
    write_kafka_properties
    kafka_java kafka.tools.StorageTool format --ignore-formatted --cluster-id AAAAAAAAAAAAAAAAAAAAAQ \
        --config "$DIR/kafka/server.properties" >"$storage" 2>&1 9>&- || give_up "the storage of Kafka could not be formatted" "$storage"
    [[ -z $STOPPING ]] || finish
    setsid setpriv --pdeathsig TERM java -Xmx512m -cp "$KAFKA_JARS/*" kafka.Kafka "$DIR/kafka/server.properties" \
        </dev/null >"$KAFKA_LOG" 2>&1 9>&- &
    KAFKA_PID=$!
    until ! port_is_free "$KAFKA_PORT"; do
        [[ -z $STOPPING ]] || finish
        kafka_is_up || give_up "Kafka did not start" "$KAFKA_LOG"
        pause
    done
    kafka_java org.apache.kafka.tools.TopicCommand --bootstrap-server "127.0.0.1:$KAFKA_PORT" --create --if-not-exists \
        --topic "$KAFKA_TOPIC" --partitions 16 --replication-factor 1 >"$storage" 2>&1 9>&- ||
        give_up "the topic $KAFKA_TOPIC could not be created" "$storage"
    export COUNTD_LOG__KIND=kafka COUNTD_KAFKA__BROKERS="[\"127.0.0.1:$KAFKA_PORT\"]" COUNTD_KAFKA__TOPIC=$KAFKA_TOPIC
}

# The broker saves its files and ends. If this script is killed, the kernel sends the broker SIGTERM.
stop_kafka() {
    [[ -z $KAFKA_PID ]] || send_term "$KAFKA_PID"
    while kafka_is_up; do wait "$KAFKA_PID" || true; done
}

print_kafka_welcome() {
    cat <<END

Kafka is on 127.0.0.1:$KAFKA_PORT (data: $DIR/kafka). countd counts its topic $KAFKA_TOPIC, to which reads and comments go. To read it:

  java -cp '$KAFKA_JARS/*' org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server 127.0.0.1:$KAFKA_PORT \\
    --topic $KAFKA_TOPIC --from-beginning --property print.key=true --property print.headers=true
END
}
