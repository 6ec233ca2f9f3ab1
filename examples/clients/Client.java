import java.nio.charset.StandardCharsets;
import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;

public class Client {
    /** A command that the client library has no method for. */
    record Command(String name) implements ProtocolCommand {
        public byte[] getRaw() { return name.getBytes(StandardCharsets.US_ASCII); }
    }

    static final Command INCRBY = new Command("CINT.INCRBY");
    static final Command BATCHINCR = new Command("CINT.BATCHINCR");
    static final Command MREAD = new Command("CINT.MREAD");
    static final Command ADD = new Command("RBM.ADD");

    /** A command and its arguments. A cluster client routes by arguments added with key, so use key only for keys. */
    static CommandArguments call(Command command) { return new CommandArguments(command); }

    public static void main(String[] args) {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379");
        try (RedisClient jedis = RedisClient.create(url)) {
            // Fields 0, 1, 2 of a post: reads, likes, comments.
            CommandArguments like = call(INCRBY).key("demo:post:1").add(1).add(1).add("LEN").add(3);
            System.out.println("likes " + jedis.executeCommand(new CommandObject<>(like, BuilderFactory.LONG)));
            CommandArguments more = call(BATCHINCR).key("demo:post:1").add(0).add(11).add(2).add(5);
            jedis.executeCommand(new CommandObject<>(more, BuilderFactory.LONG_LIST));

            // A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
            CommandArguments read = call(MREAD).add(3).key("demo:post:1").key("demo:post:2");
            byte[] page = jedis.executeCommand(new CommandObject<>(read, BuilderFactory.BINARY));
            StringBuilder counts = new StringBuilder("page");
            for (int i = 0; i < page.length; i += 5) {
                long count = 0;
                for (int j = i; j < i + 5; j++) count = count << 8 | (page[j] & 0xff);
                counts.append(' ').append(count);
            }
            System.out.println(counts);

            // Who liked it: an exact set of 64-bit ids. A long holds the bits; print it as unsigned.
            String member = Long.toUnsignedString(-1L);
            CommandArguments add = call(ADD).key("demo:likes:1").add(member);
            for (int i = 0; i < 2; i++) {
                System.out.println("new " + jedis.executeCommand(new CommandObject<>(add, BuilderFactory.LONG)));
            }

            jedis.unlink("demo:post:1", "demo:likes:1");
        }
    }
}
