import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends the reads and a comment of a few notes to the topic that countd counts. */
public class Producer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String TOPIC = System.getenv().getOrDefault("KAFKA_TOPIC", "cnt-update");

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", System.getenv().getOrDefault("KAFKA_BROKERS", "127.0.0.1:9092"),
            "compression.type", System.getenv().getOrDefault("KAFKA_COMPRESSION", "none"),
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class,
            // The defaults since Kafka 3.0: a retry of the client adds no second record.
            "enable.idempotence", true,
            "acks", "all");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<String, String>(settings)) {
            for (int i = 0; i < 100; i++) {
                sent.add(producer.send(read("note", String.valueOf(i % 10), "user-" + i)));
            }
            // Twice, as an application would that does not know whether the first attempt succeeded: it counts once.
            for (int attempt = 0; attempt < 2; attempt++) {
                sent.add(producer.send(comment("comment-4711", "note", "3", "user-1")));
            }
            for (Future<RecordMetadata> record : sent) record.get(); // throws if a record was not accepted
        }
        System.out.println("sent " + sent.size());
    }

    /** An event. The key is that of the entity: the default partitioner then chooses the partition in which countd expects it. */
    static ProducerRecord<String, String> read(String etype, String eid, String uid) throws Exception {
        Map<String, Object> event = Map.of("etype", etype, "eid", eid, "metric", "read", "delta", 1,
            "uid", uid, "ts", System.currentTimeMillis());
        return new ProducerRecord<>(TOPIC, etype + ":" + eid, JSON.writeValueAsString(event));
    }

    /** An envelope: an event with an ID. However often it is sent, it counts once. */
    static ProducerRecord<String, String> comment(String eventId, String etype, String eid, String uid) throws Exception {
        Map<String, Object> envelope = Map.of("event_id", eventId, "event_type", "comment",
            "aggregate_type", etype, "aggregate_id", eid, "payload", Map.of("delta", 1, "uid", uid));
        return new ProducerRecord<>(TOPIC, etype + ":" + eid, JSON.writeValueAsString(envelope));
    }
}
