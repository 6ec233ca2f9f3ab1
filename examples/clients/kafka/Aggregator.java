import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;

/**
 * Counts the reads and the likes of each note in objects of its own, exactly once, with CINT.APPLY. With the argument "once" it ends when
 * it has counted the records that the topic had at its start.
 */
public class Aggregator {
    record Command(String name) implements ProtocolCommand {
        public byte[] getRaw() { return name.getBytes(StandardCharsets.US_ASCII); }
    }

    static final Command APPLY = new Command("CINT.APPLY");
    static final ObjectMapper JSON = new ObjectMapper();
    static final String TOPIC = System.getenv().getOrDefault("KAFKA_TOPIC", "cnt-update");

    /**
     * The fields of an object. Records of the topic are ordered by their offsets, and copies by the numbers of their sources, because each
     * copy may be in the topic twice. Each order has a fence of its own.
     */
    static final int READS = 0, LIKES = 1, FENCE_OF_RECORDS = 2, FENCE_OF_COPIES = 3, FIELDS = 4;

    /** The maximum number of events with the same sequence number. */
    static final long EVENTS_OF_ENTRY = 64;

    /** What Redis may lose when it crashes: a second with appendfsync everysec. Offsets are committed that much later. */
    static final long LOSS_MS = 2_000;

    /** One order of the events of an object. */
    record Order(String key, int fence) {}

    /** What an event adds to the counters READS and LIKES. */
    record Deltas(long reads, long likes) {
        Deltas with(String metric, long delta) {
            return switch (metric) {
                case "read" -> new Deltas(reads + delta, likes);
                case "like" -> new Deltas(reads, likes + delta);
                default -> this;
            };
        }
        long of(int field) { return field == READS ? reads : likes; }
    }

    final RedisClient redis = RedisClient.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));
    /** The events of a batch by offset, or by the number of the source. */
    final Map<Order, TreeMap<Long, Deltas>> batch = new HashMap<>();
    /** Offsets whose records are counted, with the times. */
    record Counted(long at, Map<TopicPartition, OffsetAndMetadata> offsets) {}
    final ArrayDeque<Counted> counted = new ArrayDeque<>();

    void add(ConsumerRecord<String, String> record) throws Exception {
        JsonNode event = JSON.readTree(record.value());
        // A copy of an event that countd did not count: a duplicate, or a dead letter.
        if (record.headers().lastHeader("countd-outcome") != null) return;
        Deltas deltas = new Deltas(0, 0).with(event.path("metric").asText(), event.path("delta").asLong());
        // A change without an event, such as a reset, an adjustment or the merge of a split entity.
        for (JsonNode change : event.path("changes")) deltas = deltas.with(change.get(0).asText(), change.get(1).asLong());
        if (deltas.equals(new Deltas(0, 0))) return;
        String key = "agg:" + record.key();
        long sequence = header(record, "countd-seq", -1);
        if (sequence < 0) {
            events(new Order(key, FENCE_OF_RECORDS)).put(record.offset(), deltas);
        } else {
            // A copy of an event that countd counts from Redis. A repeated copy has the same numbers.
            long number = sequence * EVENTS_OF_ENTRY + header(record, "countd-index", 0);
            events(new Order(key, FENCE_OF_COPIES)).put(number, deltas);
        }
    }

    static long header(ConsumerRecord<String, String> record, String name, long otherwise) {
        Header header = record.headers().lastHeader(name);
        return header == null ? otherwise : Long.parseLong(new String(header.value(), StandardCharsets.US_ASCII));
    }

    TreeMap<Long, Deltas> events(Order order) { return batch.computeIfAbsent(order, any -> new TreeMap<>()); }

    /** Writes the batch. What was written before, by this process or another one, changes nothing. */
    void apply() {
        batch.forEach((order, events) -> {
            while (!events.isEmpty()) {
                long from = events.firstKey(), to = events.lastKey();
                var call = new CommandArguments(APPLY).key(order.key()).add(order.fence()).add(from).add(to).add("LEN").add(FIELDS);
                for (int field : new int[] {READS, LIKES}) {
                    call.add(field).add(events.values().stream().mapToLong(deltas -> deltas.of(field)).sum());
                }
                long fence = redis.executeCommand(new CommandObject<>(call, BuilderFactory.LONG));
                // All of it is counted now, or was before; or a part was: the rest is sent again.
                if (fence <= from || fence > to) break;
                events.headMap(fence).clear();
            }
        });
        batch.clear();
    }

    void run(boolean once) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", System.getenv().getOrDefault("KAFKA_BROKERS", "127.0.0.1:9092"),
            "group.id", System.getenv().getOrDefault("KAFKA_GROUP", "aggregator"),
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest");
        long records = 0;
        try (redis; var consumer = new KafkaConsumer<String, String>(settings)) {
            var listener = new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) { counted.clear(); }
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
            };
            consumer.subscribe(List.of(TOPIC), listener);
            Map<TopicPartition, Long> ends = null;
            while (true) {
                var polled = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : polled) add(record);
                apply();
                records += polled.count();
                long now = System.currentTimeMillis();
                if (!polled.isEmpty()) counted.add(new Counted(now, polled.nextOffsets()));
                while (!counted.isEmpty() && counted.peek().at() + LOSS_MS < now) consumer.commitSync(counted.poll().offsets());
                if (!once || consumer.assignment().isEmpty()) continue;
                if (ends == null) ends = consumer.endOffsets(consumer.assignment());
                if (ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue())) break;
            }
        }
        System.out.println("read " + records);
    }

    public static void main(String[] args) throws Exception {
        new Aggregator().run(args.length > 0 && args[0].equals("once"));
    }
}
