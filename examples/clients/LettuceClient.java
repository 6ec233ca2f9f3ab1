import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ByteArrayOutput;
import io.lettuce.core.output.IntegerListOutput;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;

public class LettuceClient {
    /** A command that the client library has no method for. */
    record Command(String word) implements ProtocolKeyword {
        public byte[] getBytes() { return word.getBytes(StandardCharsets.US_ASCII); }
        public String toString() { return word; }
    }

    static final Command INCRBY = new Command("CINT.INCRBY");
    static final Command BATCHINCR = new Command("CINT.BATCHINCR");
    static final Command MREAD = new Command("CINT.MREAD");
    static final Command ADD = new Command("RBM.ADD");
    static final StringCodec UTF8 = StringCodec.UTF8;

    /** Arguments. A cluster client routes by arguments added with addKey, so use addKey only for keys. */
    static CommandArgs<String, String> args() { return new CommandArgs<>(UTF8); }

    public static void main(String[] args) {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379");
        RedisClient client = RedisClient.create(url);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            RedisCommands<String, String> redis = connection.sync();
            // Fields 0, 1, 2 of a post: reads, likes, comments.
            long likes = redis.dispatch(INCRBY, new IntegerOutput<>(UTF8),
                    args().addKey("demo:post:1").add(1).add(1).add("LEN").add(3));
            System.out.println("likes " + likes);
            redis.dispatch(BATCHINCR, new IntegerListOutput<>(UTF8),
                    args().addKey("demo:post:1").add(0).add(11).add(2).add(5));

            // A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
            byte[] page = redis.dispatch(MREAD, new ByteArrayOutput<>(UTF8),
                    args().add(3).addKey("demo:post:1").addKey("demo:post:2"));
            StringBuilder counts = new StringBuilder("page");
            for (int i = 0; i < page.length; i += 5) {
                long count = 0;
                for (int j = i; j < i + 5; j++) count = count << 8 | (page[j] & 0xff);
                counts.append(' ').append(count);
            }
            System.out.println(counts);

            // Who liked it: an exact set of 64-bit ids. A long holds the bits; print it as unsigned.
            String member = Long.toUnsignedString(-1L);
            for (int i = 0; i < 2; i++) {
                long added = redis.dispatch(ADD, new IntegerOutput<>(UTF8), args().addKey("demo:likes:1").add(member));
                System.out.println("new " + added);
            }

            redis.unlink("demo:post:1", "demo:likes:1");
        } finally {
            client.shutdown();
        }
    }
}
